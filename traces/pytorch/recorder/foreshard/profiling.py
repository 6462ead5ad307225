"""One profiler trace of a few steps (torch.profiler)."""

from __future__ import annotations

from typing import Any


class StepProfiler:
    """CPU and CUDA activities with shapes; `start` and `stop` are called between two steps."""

    def __init__(self) -> None:
        self._profile: Any = None

    def start(self) -> None:
        """Waits for the GPU first: no kernel is in the trace whose launch is not."""
        import torch
        from torch.profiler import ProfilerActivity, profile

        activities = [ProfilerActivity.CPU]
        if torch.cuda.is_available():
            torch.cuda.synchronize()
            activities.append(ProfilerActivity.CUDA)
        started = profile(activities=activities, record_shapes=True)
        started.start()
        self._profile = started

    @property
    def running(self) -> bool:
        return self._profile is not None

    def stop(self) -> Any:
        """Waits for the GPU, so that the last step's kernels are in the trace, and returns the finished profile, whose
        export_chrome_trace writes it."""
        import torch

        finished, self._profile = self._profile, None
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        finished.stop()
        return finished
