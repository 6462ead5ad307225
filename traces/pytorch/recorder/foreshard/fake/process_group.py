"""A process group of many ranks in one process: torch's back end "fake", which does nothing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any
from unittest import mock


@contextlib.contextmanager
def fake_process_group(world_size: int, gpus_per_node: int) -> Iterator[None]:
    """Rank 0 of `world_size`. A script's own init_process_group gets it, whatever back end it asks for; what
    destroy_process_group ends is begun again by the next."""
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if dist.is_initialized():
        raise RuntimeError("a fake recording makes its own process group; begin it before init_process_group")
    begin = dist.init_process_group
    barriers: list[Any] = []

    def barrier(*args: Any, **kwargs: Any) -> None:
        """NCCL's keeps its one-byte tensor until the next (ProcessGroupNCCL.cpp, barrierTensor_)."""
        import torch

        barriers[:] = [torch.empty(1, dtype=torch.uint8, device="cuda")]

    def init(*args: Any, **kwargs: Any) -> None:
        if not dist.is_initialized():
            begin("fake", store=FakeStore(), rank=0, world_size=world_size)

    variables = {
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(gpus_per_node),
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": "0",
    }
    init()
    try:
        with (
            mock.patch.dict(os.environ, variables),
            mock.patch.object(dist, "init_process_group", init),
            mock.patch.object(dist, "barrier", barrier),
        ):
            yield
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
