"""How long steps take with nothing recording: on the GPU's clock, and on the host's alone."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any


def synchronize() -> None:
    """Waits for the GPU, where there is one."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def synchronized_within(seconds: float) -> bool:
    """Whether the GPU gets done within that time: waits in a thread that is left behind where it does not."""
    import torch

    if not torch.cuda.is_available():
        return True
    device = torch.cuda.current_device()
    done = threading.Event()

    def wait() -> None:
        with contextlib.suppress(Exception):  # a GPU in error: it does nothing any more
            torch.cuda.synchronize(device)
        done.set()

    threading.Thread(target=wait, name="foreshard-synchronize", daemon=True).start()
    return done.wait(seconds)


class StepTimer:
    """Times `steps` steps. A CUDA event ends each on the current stream; the host's clock says how long the host took
    to issue it. Nothing waits for the GPU before the last step. Without CUDA only the host is timed."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._events: list[Any] = []
        self._returned = 0.0
        self.host_issue_ms: list[float] = []

    def start(self) -> None:
        """Waits for the GPU; the first step begins when this returns."""
        import torch

        if torch.cuda.is_available():
            torch.cuda.synchronize()
            self._events = [torch.cuda.Event(enable_timing=True) for _ in range(self._steps + 1)]
            self._events[0].record()
        self._returned = time.perf_counter()

    def step(self) -> bool:
        """Ends a step. Returns whether it was the last to be timed."""
        self.host_issue_ms.append((time.perf_counter() - self._returned) * 1e3)
        if self._events:
            self._events[len(self.host_issue_ms)].record()
        self._returned = time.perf_counter()
        return len(self.host_issue_ms) >= self._steps

    def step_ms(self) -> list[float]:
        """Time between the ends of steps on the GPU, waiting for it; empty without CUDA."""
        import torch

        if not self._events or not self.host_issue_ms:
            return []
        torch.cuda.synchronize()
        ends = self._events[: len(self.host_issue_ms) + 1]
        return [first.elapsed_time(second) for first, second in zip(ends, ends[1:])]
