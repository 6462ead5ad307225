"""PyTorch's memory history: who allocated and freed what, in order (torch.cuda.memory._record_memory_history)."""

from __future__ import annotations

import logging
from typing import Any

_log = logging.getLogger("foreshard")
_started = False


def start_history(stacks: str = "python", max_entries: int = 1_000_000) -> None:
    """Starts the history at once where CUDA is initialised, else when it is; does nothing when it has been started.

    Waiting for the initialisation (torch.cuda._lazy_call), and not asking whether there is a GPU, leaves the script
    free to set CUDA_VISIBLE_DEVICES and to fork. Never raises.
    """
    try:
        import torch

        if torch.backends.cuda.is_built():
            torch.cuda._lazy_call(lambda: _start(stacks, max_entries))
    except Exception as error:
        _log.warning("no memory history: %s: %s", type(error).__name__, error)


def history_started() -> bool:
    """Whether this module has started a history that runs."""
    return _started


def sees_setup() -> bool:
    """Whether a history that begins now, or has begun, knows everything that the process allocates on the GPU."""
    import torch

    return _started or not torch.cuda.is_initialized()


def take_snapshot() -> dict[str, Any]:
    """The allocator's state and the history (torch.cuda.memory._snapshot), as _dump_snapshot would pickle it."""
    import torch

    return torch.cuda.memory._snapshot()


def stop_history() -> None:
    """Stops the history; allocations cost what they did before."""
    import torch

    global _started
    if _started:
        _started = False
        torch.cuda.memory._record_memory_history(enabled=None)


def _start(stacks: str, max_entries: int) -> None:
    global _started
    if _started:
        return
    try:
        import torch

        start = torch.cuda.memory._record_memory_history
        options: dict[str, Any] = {"context": "all", "stacks": stacks, "max_entries": max_entries}
        try:
            # 2.14 and later: pinned host memory as well (#182407).
            start("all", record_pinned_host_memory=True, **options)
        except TypeError:
            start("all", **options)
        _started = True
    except Exception as error:  # runs inside torch.cuda._lazy_init
        _log.warning("no memory history: %s: %s", type(error).__name__, error)
