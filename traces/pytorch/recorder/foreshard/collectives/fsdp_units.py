"""The FSDP2 units of a model, and what stands behind each: foreshard's collectives, or what was there before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..units import groups_of
from . import gradients


@dataclass(frozen=True)
class Unit:
    """An FSDP2 module and its parameter group. The modules of a list unit share a state and are one."""

    module: Any
    param_group: Any

    def has_several_groups(self) -> bool:
        return len(groups_of(self.module._get_fsdp_state())) > 1

    def put(self, group: Any, process_group: Any, all_gather: bool, reduce_scatter: bool) -> None:
        """Puts the collectives of `group` behind a unit that has none of foreshard's."""
        from .comms import ForeshardAllGather, ForeshardReduceScatter

        of = self.param_group
        if all_gather:
            self.module.set_custom_all_gather(ForeshardAllGather(group, process_group, of._all_gather_comm))
        if reduce_scatter:
            replaced = of._reduce_scatter_comm
            comm = ForeshardReduceScatter(group, process_group, replaced, lambda: of.gradient_divide_factor)
            self.module.set_custom_reduce_scatter(comm)
            gradients.follow(of, comm)

    def give_back(self) -> None:
        """What put() replaced, where it has."""
        gather = getattr(self.param_group, "_all_gather_comm", None)
        if hasattr(gather, "foreshard_replaced"):
            self.module.set_custom_all_gather(gather.foreshard_replaced)
        scatter = getattr(self.param_group, "_reduce_scatter_comm", None)
        if hasattr(scatter, "foreshard_replaced"):
            self.module.set_custom_reduce_scatter(scatter.foreshard_replaced)
            gradients.follow(self.param_group, None)


def by_group(model: Any) -> list[tuple[Any, list[Unit]]]:
    """(process group, its units) in the order of the model; None for units that are replicated alone."""
    found: dict[int, tuple[Any, list[Unit]]] = {}
    seen: set[int] = set()
    for module in _modules(model):
        if id(module._get_fsdp_state()) in seen:
            continue
        seen.add(id(module._get_fsdp_state()))
        for param_group in groups_of(module._get_fsdp_state()):
            process_group = getattr(param_group.mesh_info, "shard_process_group", None)
            found.setdefault(id(process_group), (process_group, []))[1].append(Unit(module, param_group))
    return list(found.values())


def root_count(model: Any) -> int:
    """FSDP2 units of `model` that lie in no other."""
    modules = _modules(model)
    inner = {id(child) for module in modules for child in module.modules() if child is not module}
    return len({id(module._get_fsdp_state()) for module in modules if id(module) not in inner})


def _modules(model: Any) -> list[Any]:
    from torch.distributed.fsdp import FSDPModule

    return [module for module in model.modules() if isinstance(module, FSDPModule)]
