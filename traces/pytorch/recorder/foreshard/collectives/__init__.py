"""foreshard's own collectives inside FSDP2:

    model = fully_shard(...)
    foreshard.collectives.enable(model)

docs/torch_collectives.md says what they need, what they do and what was measured. Importing this package imports
nothing but the standard library; enable() imports torch.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import rendezvous

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Served", "enable"]

logger = logging.getLogger("foreshard")

# CUDA's hardware queues; 8 unless this says otherwise. FSDP2's streams, NCCL's and the library's are a dozen.
_CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"
_ENOUGH_CONNECTIONS = 16


@dataclass(frozen=True)
class Served:
    """What became of the units that share a process group."""

    ranks: int
    units: int
    by: str  # "foreshard" or "nccl"
    reason: str  # why NCCL; empty where foreshard


def enable(model: nn.Module, *, all_gather: bool = True, reduce_scatter: bool = True) -> list[Served]:
    """Puts foreshard's all-gather and reduce-scatter behind each FSDP2 module of `model`. Collective: every rank of its
    process groups calls it, after fully_shard() and before the first step. Groups that cannot be served stay with NCCL,
    with a logged reason, on all ranks alike. Raises where a rank does not come (the store's timeout)."""
    out = []
    connections = os.environ.get(_CONNECTIONS, "")
    if not connections.isdigit() or int(connections) < _ENOUGH_CONNECTIONS:
        logger.warning("set %s=32 before CUDA starts: streams that share a queue wait for each other", _CONNECTIONS)
    for process_group, units in _units_by_group(model):
        try:
            if process_group is None:
                raise rendezvous.Unserved("no shard dimension")
            _serve(process_group, units, all_gather, reduce_scatter)
        except rendezvous.Unserved as error:
            logger.warning("NCCL serves the collectives of %d units: %s", len(units), error)
            ranks = 1 if process_group is None else process_group.size()
            out.append(Served(ranks, len(units), "nccl", str(error)))
        else:
            out.append(Served(process_group.size(), len(units), "foreshard", ""))
    return out


def _units_by_group(model: nn.Module) -> list[tuple[Any, list[tuple[Any, Any]]]]:
    """(process group, its units) in the order of the model; a unit is an FSDP2 module and its parameter group. The
    modules of a list unit share a state and are one."""
    from torch.distributed.fsdp import FSDPModule

    from ..units import groups_of

    found: dict[int, tuple[Any, list[tuple[Any, Any]]]] = {}
    seen: set[int] = set()
    for module in model.modules():
        if not isinstance(module, FSDPModule) or id(module._get_fsdp_state()) in seen:
            continue
        seen.add(id(module._get_fsdp_state()))
        for param_group in groups_of(module._get_fsdp_state()):
            process_group = getattr(param_group.mesh_info, "shard_process_group", None)
            found.setdefault(id(process_group), (process_group, []))[1].append((module, param_group))
    return list(found.values())


_groups: dict[tuple[Any, ...], Any] = {}  # Group, or rendezvous.Unserved, by the process group's name and ranks


def _serve(process_group: Any, units: list[tuple[Any, Any]], all_gather: bool, reduce_scatter: bool) -> None:
    from ..units import groups_of
    from . import gradients

    device = units[0][1].device
    if device.type != "cuda":
        raise rendezvous.Unserved(f"the parameters are on {device.type}")
    if not hasattr(units[0][0], "set_custom_all_gather"):
        raise rendezvous.Unserved("this PyTorch has no set_custom_all_gather (2.8 and later)")
    if any(len(groups_of(module._get_fsdp_state())) > 1 for module, _ in units):
        raise rendezvous.Unserved("a module has several parameter groups")
    group = _group_of(process_group, device)
    from .comms import ForeshardAllGather, ForeshardReduceScatter

    for module, param_group in units:
        if all_gather:
            module.set_custom_all_gather(ForeshardAllGather(group, process_group))
        if reduce_scatter:
            comm = ForeshardReduceScatter(group, process_group, lambda of=param_group: of.gradient_divide_factor)
            module.set_custom_reduce_scatter(comm)
            gradients.follow(param_group, comm)


def _group_of(process_group: Any, device: Any) -> Any:
    """One for each process group of a process, also over several models."""
    from torch.distributed import get_process_group_ranks

    key = (process_group.group_name, *get_process_group_ranks(process_group))
    if key not in _groups:
        from .group import Group

        try:
            _groups[key] = Group(process_group, device)
        except rendezvous.Unserved as error:
            _groups[key] = error
    if isinstance(_groups[key], rendezvous.Unserved):
        raise _groups[key]
    return _groups[key]
