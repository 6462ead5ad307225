"""One process group that foreshard's collectives serve: its handle, its symmetric memory as a pool of PyTorch's caching
allocator, and the thread that ends the process when another rank is lost."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from . import library, rendezvous

logger = logging.getLogger("foreshard")

# How long the program may take to end by itself when a rank is lost; with the library's own two seconds, ten at most.
GRACE_S = 5.0
_WATCH_MS = 200


class Group:
    """Collectives and memory of one process group. Collective: every rank makes the same calls in the same order."""

    def __init__(self, group: dist.ProcessGroup, device: torch.device) -> None:
        """Raises rendezvous.Unserved, on all ranks."""
        self.device = device
        self.ranks, self.rank = group.size(), group.rank()
        library_or_problem = _load()
        problem = library_or_problem if isinstance(library_or_problem, str) else None
        timeout_ms = int(_timeout_s(group, device) * 1000)
        rounds = rendezvous.StoreRounds(_store(group), self.rank, self.ranks)
        facts = rendezvous.own_facts(str(torch.cuda.get_device_properties(device).uuid), problem)
        self.library: Any = library_or_problem
        endpoint = _Endpoint(self.library, (self.rank, self.ranks, device.index, timeout_ms))
        self.handle = rendezvous.meet(rounds, facts, endpoint)
        # Kept: the pool does not own its allocator.
        self._allocator = torch.cuda.memory.CUDAPluggableAllocator(
            self.library.path, "foreshard_collectives_malloc", "foreshard_collectives_free"
        )
        self.pool = torch.cuda.MemPool(self._allocator.allocator())
        self.stream = torch.cuda.Stream(device, priority=-1)
        self._closing = False
        self._watcher = threading.Thread(target=self._watch, name="foreshard-watch", daemon=True)
        self._watcher.start()
        atexit.register(self._close)

    def empty(self, size: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """As torch.empty, in symmetric memory. A pool that has to grow waits for the other ranks."""
        try:
            return self._empty(size, dtype)
        except torch.OutOfMemoryError:
            # All ranks fail where one has no memory: each gives back what it has cached.
            torch.cuda.empty_cache()
        try:
            return self._empty(size, dtype)
        except torch.OutOfMemoryError as error:
            raise torch.OutOfMemoryError(f"symmetric memory: {self.library.error()}") from error

    def _empty(self, size: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        self.library.select(self.handle)
        with torch.cuda.use_mem_pool(self.pool, self.device):
            return torch.empty(tuple(size), dtype=dtype, device=self.device)

    def contains(self, tensor: torch.Tensor) -> bool:
        return self.library.contains(self.handle, tensor.data_ptr(), tensor.numel() * tensor.element_size())

    def all_gather(self, output: torch.Tensor, source: torch.Tensor, stream: int) -> None:
        size = source.numel() * source.element_size()
        self.library.all_gather(self.handle, source.data_ptr(), output.data_ptr(), size, stream)

    def reduce_scatter(self, output: torch.Tensor, source: torch.Tensor, scale: float, stream: int) -> None:
        dtypes = (dtype_number(source.dtype), dtype_number(output.dtype))
        self.library.reduce_scatter(
            self.handle, source.data_ptr(), output.data_ptr(), output.numel(), dtypes, scale, stream
        )

    def _watch(self) -> None:
        while not self._closing:
            try:
                self.library.watch(self.handle, _WATCH_MS)
            except library.CollectiveError as error:
                self._end(error)
                return

    def _end(self, error: library.CollectiveError) -> None:
        """What the streams deliver from now on is undefined, so the process must end, as NCCL's watchdog ends it."""
        logger.error("%s: this process ends within %g s", error, GRACE_S)
        deadline = time.monotonic() + GRACE_S
        while time.monotonic() < deadline and not self._closing:
            try:
                self.library.watch(self.handle, _WATCH_MS)  # ends the waits of what was issued since
            except library.CollectiveError:
                time.sleep(_WATCH_MS / 1000)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(error.code)

    def _close(self) -> None:
        """Before CUDA goes: the watcher reads memory that CUDA gave."""
        self._closing = True
        self._watcher.join(2 * GRACE_S)


class _Endpoint:
    """rendezvous.Endpoint."""

    def __init__(self, loaded: library.Library, settings: tuple[int, int, int, int]) -> None:
        self._library, self._settings = loaded, settings

    def open(self) -> tuple[int, bytes]:
        return self._library.open(*self._settings)

    def connect(self, handle: int, addresses: list[bytes]) -> None:
        self._library.connect(handle, addresses)

    def close(self, handle: int) -> None:
        self._library.close(handle)


def dtype_number(dtype: torch.dtype) -> int:
    return library.DTYPES[str(dtype).removeprefix("torch.")]


def reducible(dtype: torch.dtype) -> bool:
    return str(dtype).removeprefix("torch.") in library.DTYPES


def _load() -> library.Library | str:
    """The library, or why there is none."""
    try:
        return library.load()
    except OSError as error:
        return str(error)


_rounds_of: dict[str, int] = {}


def _store(group: dist.ProcessGroup) -> Any:
    """The group's own store, below a name that is new with each call."""
    from torch.distributed.distributed_c10d import _get_process_group_store

    turn = _rounds_of.get(group.group_name, 0)
    _rounds_of[group.group_name] = turn + 1
    return dist.PrefixStore(f"foreshard/collectives/{turn}", _get_process_group_store(group))


def _timeout_s(group: dist.ProcessGroup, device: torch.device) -> float:
    """The group's, as NCCL's watchdog has it."""
    options = getattr(group._get_backend(device), "options", None)
    timeout = getattr(options, "_timeout", None) or dist.default_pg_timeout
    return timeout.total_seconds()
