"""One process group that foreshard's collectives serve: its handle, its symmetric memory as a pool of PyTorch's caching
allocator, and the thread that ends the process when another rank is lost."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from . import library, memory, rendezvous
from .reasons import Reasons

logger = logging.getLogger("foreshard")

# The first PyTorch that this was run with; those before it differ in MemPool, in FSDP2's hooks and in their signatures.
_PYTORCH = (2, 11)
_WATCH_MS = 200
# For the last words of a process whose group is lost: then the library ends it, whatever its threads wait for.
_GRACE_MS = 3000


class Group:
    """Collectives and memory of one process group. Collective: every rank makes the same calls in the same order."""

    def __init__(self, group: dist.ProcessGroup, device: torch.device) -> None:
        """Raises rendezvous.Unserved, on all ranks."""
        self.device = device
        self.ranks, self.rank = group.size(), group.rank()
        self.reasons = Reasons(self.rank)
        problem = _problem_of_pytorch()
        self.library: Any = None
        if problem is None:
            self.library, self._allocator, problem = _load(device)
        timeout_ms = int(_timeout_s(group, device) * 1000)
        rounds = rendezvous.StoreRounds(_store(group), self.rank, self.ranks)
        endpoint = _Endpoint(self.library, (self.rank, self.ranks, device.index, timeout_ms))
        self.handle = rendezvous.meet(rounds, rendezvous.own_facts(_uuid(device), problem), endpoint)
        self.pool = torch.cuda.MemPool(self._allocator.allocator())
        self.stream = torch.cuda.Stream(device, priority=-1)
        self._closing = False
        self._watcher = threading.Thread(target=self._watch, name="foreshard-watch", daemon=True)
        self._watcher.start()
        atexit.register(self.close)

    def empty(self, size: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """As torch.empty, in symmetric memory. A pool that has to grow waits for the other ranks. Raises
        torch.OutOfMemoryError where a rank has no memory, CollectiveError where one did not come, has ended or asked
        for something else."""
        try:
            return self._empty(size, dtype)
        except torch.OutOfMemoryError as error:
            self._check_that_memory_was_missing(error)
            # All ranks fail where one has no memory: each gives back what it has cached.
            torch.cuda.empty_cache()
        try:
            return self._empty(size, dtype)
        except torch.OutOfMemoryError as error:
            self._check_that_memory_was_missing(error)
            raise torch.OutOfMemoryError(f"symmetric memory: {self.library.error() or error}") from error

    def _empty(self, size: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        self.library.select(self.handle)
        with torch.cuda.use_mem_pool(self.pool, self.device):
            return torch.empty(tuple(size), dtype=dtype, device=self.device)

    def _check_that_memory_was_missing(self, error: Exception) -> None:
        """PyTorch says out of memory whatever an allocator's reason is; 0: it did not ask the library."""
        number = self.library.error_number()
        if number not in (0, library.OUT_OF_MEMORY):
            raise library.CollectiveError(number, f"symmetric memory: {self.library.error()}") from error

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

    def close(self) -> None:
        """Stops watching. Before CUDA goes: the watcher reads memory that CUDA gave."""
        self._closing = True
        self._watcher.join(10 * _WATCH_MS / 1000)
        atexit.unregister(self.close)

    def _watch(self) -> None:
        while not self._closing:
            try:
                self.library.watch(self.handle, _WATCH_MS, _GRACE_MS)
            except library.CollectiveError as error:
                _end_process(error)
                return


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


def _end_process(error: library.CollectiveError) -> None:
    """As NCCL's watchdog does. Streams wait for what never comes, and nothing may run on what they would have brought:
    nothing here touches CUDA, and the waits are left as they are. The library's timer runs already: a log handler's
    lock, or a stream's, may be held by a thread that waits for the device."""
    try:
        logger.error("%s: this process ends with code %d", error, error.code)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):  # closed, or nobody reads
        pass
    finally:
        os._exit(error.code)


def dtype_number(dtype: torch.dtype) -> int:
    return library.DTYPES[str(dtype).removeprefix("torch.")]


def reducible(dtype: torch.dtype) -> bool:
    return str(dtype).removeprefix("torch.") in library.DTYPES


def _problem_of_pytorch() -> str | None:
    version = torch.__version__
    numbers = str(version).split(".")[:2]
    if all(number.isdigit() for number in numbers) and tuple(map(int, numbers)) >= _PYTORCH:
        return None
    return f"PyTorch {version}; {_PYTORCH[0]}.{_PYTORCH[1]} or later is needed"


def _load(device: torch.device) -> tuple[Any, Any, str | None]:
    """The library and its allocator, or why there is none that serves."""
    try:
        loaded = library.load()
        allocator = memory.allocator(loaded.path)
        return loaded, allocator, memory.problem_of_pools(loaded, allocator, device)
    except OSError as error:
        return None, None, str(error)


def _uuid(device: torch.device) -> str:
    return str(getattr(torch.cuda.get_device_properties(device), "uuid", ""))  # PyTorch before 2.4 has none


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
