"""Lets the ranks wait for one another without a collective, so that one that has failed holds up nobody for long."""

from __future__ import annotations

from datetime import timedelta


def wait_for_ranks(rank: int, world_size: int, place: str, timeout_s: float) -> None:
    """Returns when every rank has called this with `place`. Raises torch.distributed.DistStoreError when one has not
    within the time. Uses the TCP store of the process group and nothing of the GPU."""
    import torch.distributed as dist

    if world_size <= 1 or not dist.is_available() or not dist.is_initialized():
        return
    from torch.distributed.distributed_c10d import _get_default_store

    store = dist.PrefixStore(f"foreshard/{place}", _get_default_store())
    store.set(str(rank), "here")
    store.wait([str(other) for other in range(world_size)], timedelta(seconds=timeout_s))
