"""A recording whose steps end with the optimizer's: for loops that cannot be edited."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from .guard import Guard
from .recording import Recording


class RecordingByOptimizer:
    """A context manager without step(): the first optimizer that steps ends the training steps
    (torch.optim.optimizer.register_optimizer_step_post_hook). `after` steps go by before the recording begins; its
    options are Recording's."""

    def __init__(self, folder: Any, model: Any = None, optimizer: Any = None, *, after: int = 0, **options: Any):
        self._recording = Recording(folder, model, optimizer, **options)
        self._has_optimizers = optimizer is not None
        self._after = after
        self._counted: int | None = None
        self._handle: Any = None
        self._entered = False
        self._guard = Guard()

    @property
    def problems(self) -> list[str]:
        return self._guard.problems + self._recording.problems

    def __enter__(self) -> RecordingByOptimizer:
        self._guard.run("start", self._start)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        if self._entered:
            self._recording.__exit__(kind, error, trace)

    def _start(self) -> None:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        self._handle = register_optimizer_step_post_hook(self._stepped)
        if self._after == 0:
            self._enter()

    def _enter(self) -> None:
        self._entered = True
        self._recording.__enter__()

    def _stop(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.remove()

    def _stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._guard.run("step", lambda: self._step(optimizer))

    def _step(self, optimizer: Any) -> None:
        """A container of optimizers (torchtitan's) steps each of them and then itself: the first is counted."""
        if self._counted is None:
            self._counted = id(optimizer)
        if self._recording.done and self._entered:
            self._stop()
            return
        if not self._has_optimizers:
            self._recording.add_optimizer(optimizer)
        if id(optimizer) != self._counted:
            return
        if self._entered:
            self._recording.step()
            return
        self._after -= 1
        if self._after <= 0:
            self._enter()
