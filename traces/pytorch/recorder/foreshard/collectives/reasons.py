"""Why NCCL serves something, said where it is read once: by rank 0 as a warning, by the others as information."""

from __future__ import annotations

import logging

logger = logging.getLogger("foreshard")


def warn(rank: int, text: str, *values: object) -> None:
    logger.log(logging.WARNING if rank == 0 else logging.INFO, text, *values)


class Reasons:
    """Of one process group: each reason once, however many units meet it."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._said: set[tuple[str, str]] = set()

    def say(self, what: str, reason: str) -> None:
        """`what`: the call, with its article."""
        if (what, reason) not in self._said:
            self._said.add((what, reason))
            warn(self._rank, "NCCL serves %s: %s", what, reason)
