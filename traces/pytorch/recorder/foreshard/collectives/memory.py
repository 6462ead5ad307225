"""Symmetric memory as a pool of PyTorch's caching allocator."""

from __future__ import annotations

import os
from typing import Any

import torch

from .library import Library

_SETTINGS = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")


def allocator(path: str) -> Any:
    """The library's, for a torch.cuda.MemPool, which does not own it: it has to be kept as long as the pool."""
    return torch.cuda.memory.CUDAPluggableAllocator(path, "foreshard_collectives_malloc", "foreshard_collectives_free")


def expandable_segments() -> bool:
    settings = ",".join(os.environ.get(name, "") for name in _SETTINGS)
    return "expandable_segments:true" in settings.replace(" ", "").lower()


def problem_of_pools(loaded: Library, of: Any, device: torch.device) -> str | None:
    """Why this PyTorch has no pool of an own allocator beside expandable segments; None where it has. Some versions
    refuse one (pytorch#148378), older ones map the memory themselves (pytorch#147851). PyTorch cannot be asked, so one
    is tried: without a group the library has no memory, and a pool that asks it runs out."""
    if not expandable_segments():
        return None
    loaded.select(0)
    try:
        with torch.cuda.use_mem_pool(torch.cuda.MemPool(of.allocator()), device):
            torch.empty((1,), dtype=torch.uint8, device=device)
    except torch.OutOfMemoryError:
        return None
    except RuntimeError as error:
        return f"expandable_segments: {str(error).splitlines()[0]}"
    return "expandable_segments: a MemPool of this PyTorch does not ask its allocator"
