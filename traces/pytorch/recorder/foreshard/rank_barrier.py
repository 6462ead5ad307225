"""Lets the ranks wait for one another without a collective, so that one that has failed holds up nobody."""

from __future__ import annotations

from datetime import timedelta
from typing import Any


class RankBarrier:
    """A barrier that each rank passes once, in the store of the process group (torchrun's TCP store). Nothing of the
    GPU is used. Does nothing where there is one rank, or no process group."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._arrived = False

    def arrive(self) -> None:
        """Says that this rank has come, or that nobody need wait for it."""
        store = None if self._arrived else self._store()
        if store is not None:
            self._arrived = True
            store.set(str(_rank_and_world()[0]), "here")

    def wait(self, timeout_s: float) -> None:
        """Arrives, and returns when every rank has. Raises torch.distributed.DistStoreError when one has not within the
        time."""
        self.arrive()
        store = self._store()
        if store is not None:
            store.wait([str(rank) for rank in range(_rank_and_world()[1])], timedelta(seconds=timeout_s))

    def _store(self) -> Any:
        import torch.distributed as dist

        if not dist.is_available() or not dist.is_initialized() or _rank_and_world()[1] <= 1:
            return None
        from torch.distributed.distributed_c10d import _get_default_store

        return dist.PrefixStore(f"foreshard/{self._place}", _get_default_store())


def _rank_and_world() -> tuple[int, int]:
    import torch.distributed as dist

    return dist.get_rank(), dist.get_world_size()
