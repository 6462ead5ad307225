"""One profiler trace of a few steps (torch.profiler)."""

from __future__ import annotations

import os
from typing import Any

# The first CUDA with which CUPTI can be detached beside CUDA graphs (pytorch#146604).
_DETACHES = (12, 6)


def _detach_cupti() -> None:
    """Has Kineto detach CUPTI when a profile ends, unless the environment says otherwise. Without it every later launch
    of the process still passes through CUPTI (pytorch#144455), and steps that the host bounds, the ones that are timed
    among them, stay slower. It stays set: Kineto asks for it again when the next profile begins."""
    import torch

    version = (torch.version.cuda or "0").split(".")
    if tuple(int(part) for part in version[:2]) >= _DETACHES:
        os.environ.setdefault("TEARDOWN_CUPTI", "1")


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
            _detach_cupti()
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
