"""How the ranks of a process group decide, all alike, whether foreshard's collectives serve it.

Three rounds through the group's store: what each rank is and has, where it listens, whether it has connected. Each rank
reads every rank's answer, so that all come to the same verdict; a rank that cannot go on says so in its answer. It
closes its end before it waits for the others' answers: they may be waiting for it in connect().
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Protocol

from .library import ABI, CollectiveError

MOST_RANKS = 8
# Codes of failures that another rank's has caused (docs/exit_codes.md): it ended, or did not come.
_CONSEQUENCES = (14, 15)


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
    try:
        where = host()
    except OSError as error:
        where, problem = "", problem or f"one host cannot be told from another: {error}"
    return {"abi": ABI, "host": where, "gpu": gpu, "problem": problem}


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
    handle, address, failure = 0, b"", None
    try:
        handle, address = endpoint.open()
    except CollectiveError as error:
        failure = error
    answers = rounds.ask("address", {"address": address.hex(), **_told(failure)})
    reason = _cause(answers)
    if reason is None:
        try:
            endpoint.connect(handle, [bytes.fromhex(answer["address"]) for answer in answers])
        except CollectiveError as error:
            failure = error
            endpoint.close(handle)
            handle = 0
        reason = _cause(rounds.ask("connected", _told(failure)))
    if reason is None:
        return handle
    if handle:
        endpoint.close(handle)
    raise Unserved(reason)


def _told(failure: CollectiveError | None) -> dict[str, Any]:
    return {"problem": None, "code": 0} if failure is None else {"problem": str(failure), "code": failure.code}


def _cause(answers: list[dict[str, Any]]) -> str | None:
    """The first rank's problem that is no consequence of another's; where all are, the first."""
    problems = [(answer["code"] in _CONSEQUENCES, rank) for rank, answer in enumerate(answers) if answer["problem"]]
    if not problems:
        return None
    _, rank = min(problems)
    return f"rank {rank}: {answers[rank]['problem']}"
