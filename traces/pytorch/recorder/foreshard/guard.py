"""Keeps what fails in the recorder away from the training."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

_log = logging.getLogger("foreshard")
_Result = TypeVar("_Result")


class Guard:
    """Runs the recorder's own steps. The first failure is logged with its reason, all are kept in `problems`."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def note(self, problem: str) -> None:
        """Keeps a problem, and logs it when it is the first."""
        if not self.problems:
            _log.warning("the recording is incomplete, the training goes on: %s", problem)
        if problem not in self.problems:
            self.problems.append(problem)

    def run(self, what: str, function: Callable[[], _Result]) -> _Result | None:
        """`function()`, or None where it raises. KeyboardInterrupt and SystemExit pass."""
        try:
            return function()
        except Exception as error:  # whatever it is, the training must not see it
            self.note(f"{what}: {type(error).__name__}: {error}")
            return None
