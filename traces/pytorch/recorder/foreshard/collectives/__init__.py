"""foreshard's own collectives inside FSDP2:

    model = fully_shard(...)
    foreshard.collectives.enable(model)

docs/torch_collectives.md says what they need, what they do and what was measured. Importing this package imports
nothing but the standard library; enable() imports torch.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import fsdp_units, reasons, rendezvous

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Served", "disable", "enable"]

# CUDA's hardware queues; 8 unless this says otherwise. FSDP2's streams, NCCL's and the library's are a dozen.
_CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"
_ENOUGH_CONNECTIONS = 16


@dataclass(frozen=True)
class Served:
    """What became of the units that share a process group."""

    ranks: int
    units: int
    all_gather: str  # "foreshard" or "nccl"
    reduce_scatter: str  # likewise
    reason: str  # why NCCL serves what was asked for; empty where foreshard does


def enable(model: nn.Module, *, all_gather: bool = True, reduce_scatter: bool = True) -> list[Served]:
    """Puts foreshard's all-gather and reduce-scatter behind each FSDP2 module of `model`; what is False gets back what
    was there before. Collective: every rank of its process groups calls it, after fully_shard() and between steps; it
    may be called again. Groups that cannot be served stay with NCCL, with a logged reason, on all ranks alike. Raises
    ValueError where the model has no FSDP2 module, and what the store raises where a rank does not come (its
    timeout)."""
    by_group = fsdp_units.by_group(model)
    if not by_group:
        raise ValueError(
            "no module of the model is an FSDP2 module: call fully_shard() before enable(); "
            "FullyShardedDataParallel (FSDP1) and DistributedDataParallel are not served"
        )
    _warn_of_roots(fsdp_units.root_count(model))
    return [_enable(process_group, units, all_gather, reduce_scatter) for process_group, units in by_group]


def disable(model: nn.Module) -> None:
    """Gives each FSDP2 module of `model` back what enable() replaced. Between steps, on all ranks. The groups stay
    connected, with their memory, for models that are enabled later."""
    for _, units in fsdp_units.by_group(model):
        for unit in units:
            unit.give_back()


def _enable(process_group: Any, units: list[fsdp_units.Unit], all_gather: bool, reduce_scatter: bool) -> Served:
    for unit in units:
        unit.give_back()
    ranks = 1 if process_group is None else process_group.size()
    try:
        group = _group_for(process_group, units)
    except rendezvous.Unserved as error:
        rank = _own_rank() if process_group is None else process_group.rank()
        reason = str(error)
        reasons.warn(rank, "NCCL serves the collectives of %d units: %s", len(units), reason)
        return Served(ranks, len(units), "nccl", "nccl", reason)
    if all_gather or reduce_scatter:
        _warn_of_connections(process_group.rank())
    for unit in units:
        unit.put(group, process_group, all_gather, reduce_scatter)
    by = ["foreshard" if asked else "nccl" for asked in (all_gather, reduce_scatter)]
    return Served(ranks, len(units), *by, "")


def _group_for(process_group: Any, units: list[fsdp_units.Unit]) -> Any:
    """Raises rendezvous.Unserved; what is asked before the ranks meet is the same on all ranks of one program."""
    if process_group is None:
        raise rendezvous.Unserved("no shard dimension")
    device = units[0].param_group.device
    if device.type != "cuda":
        raise rendezvous.Unserved(f"the parameters are on {device.type}")
    if any(unit.has_several_groups() for unit in units):
        raise rendezvous.Unserved("a module has several parameter groups")
    from . import groups

    return groups.of(process_group, device)


def _own_rank() -> int:
    from torch import distributed

    return distributed.get_rank()


def _warn_of_roots(count: int) -> None:
    if count > 1:
        reasons.warn(
            _own_rank(), "the model has %d FSDP2 modules that no other holds: fully_shard(model) too, after its "
            "layers, or each is a root, whose gathers wait for all work before them", count,
        )  # fmt: skip


_warned_of_connections = False


def _warn_of_connections(rank: int) -> None:
    """Once in a process: it is the process's."""
    global _warned_of_connections
    found = os.environ.get(_CONNECTIONS, "")
    if _warned_of_connections or (found.isdigit() and int(found) >= _ENOUGH_CONNECTIONS):
        return
    _warned_of_connections = True
    reasons.warn(rank, "set %s=32 before CUDA starts: streams that share a queue wait for each other", _CONNECTIONS)
