"""How the ranks of a process group decide, all alike, whether foreshard's collectives serve it.

Three rounds through the group's store: what each rank is and has, where it listens, whether it has connected. Each rank
reads every rank's answer, so that all come to the same verdict; a rank that cannot go on says so in its answer.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Protocol

from .library import ABI, CollectiveError

MOST_RANKS = 8


class Unserved(Exception):
    """Why NCCL serves the group; the same text on all ranks."""


class StoreRounds:
    """All ranks' answers to one question after another, through a key-value store with `set` and a blocking `get`."""

    def __init__(self, store: Any, rank: int, ranks: int) -> None:
        self._store, self._rank, self._ranks = store, rank, ranks

    def ask(self, question: str, answer: dict[str, Any]) -> list[dict[str, Any]]:
        """By rank. Blocks until every rank has answered, for as long as the store's timeout."""
        self._store.set(f"{question}/{self._rank}", json.dumps(answer))
        return [json.loads(self._store.get(f"{question}/{rank}")) for rank in range(self._ranks)]


def host() -> str:
    """The same for processes that can reach each other's abstract sockets: one kernel, one network name space."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {os.stat('/proc/self/ns/net').st_ino}"


def own_facts(gpu: str, problem: str | None) -> dict[str, Any]:
    return {"abi": ABI, "host": host(), "gpu": gpu, "problem": problem}


def verdict(facts: list[dict[str, Any]]) -> str | None:
    """Why these ranks are not served; None where they are."""
    for rank, fact in enumerate(facts):
        if fact["problem"]:
            return f"rank {rank}: {fact['problem']}"
    if len(facts) < 2:
        return "one rank has nothing to exchange"
    if len(facts) > MOST_RANKS:
        return f"{len(facts)} ranks; at most {MOST_RANKS} of one host are served"
    if len({fact["abi"] for fact in facts}) > 1:
        return "the ranks have different versions of foreshard"
    if len({fact["host"] for fact in facts}) > 1:
        return "the ranks are on different hosts, or in containers without a common network name space"
    if len({fact["gpu"] for fact in facts}) < len(facts):
        return "two ranks share a GPU"
    return None


class Endpoint(Protocol):
    """This rank's part of a group (library.Library, with the group's settings). Calls raise CollectiveError."""

    def open(self) -> tuple[int, bytes]: ...
    def connect(self, handle: int, addresses: list[bytes]) -> None: ...
    def close(self, handle: int) -> None: ...


def meet(rounds: StoreRounds, facts: dict[str, Any], endpoint: Endpoint) -> int:
    """The handle of the connected group. Raises Unserved on all ranks, or on none."""
    if reason := verdict(rounds.ask("facts", facts)):
        raise Unserved(reason)
    handle, address, problem = 0, b"", None
    try:
        handle, address = endpoint.open()
    except CollectiveError as error:
        problem = str(error)
    answers = rounds.ask("address", {"address": address.hex(), "problem": problem})
    reason = _first_problem(answers)
    if reason is None:
        try:
            endpoint.connect(handle, [bytes.fromhex(answer["address"]) for answer in answers])
        except CollectiveError as error:
            problem = str(error)
        reason = _first_problem(rounds.ask("connected", {"problem": problem}))
    if reason is None:
        return handle
    if handle:
        endpoint.close(handle)
    raise Unserved(reason)


def _first_problem(answers: list[dict[str, Any]]) -> str | None:
    return next((f"rank {rank}: {answer['problem']}" for rank, answer in enumerate(answers) if answer["problem"]), None)
