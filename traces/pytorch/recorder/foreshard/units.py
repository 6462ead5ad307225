"""What FSDP2 made of a model: its units in order, their parameters, meshes and settings, read off FSDP2's own objects.

Attributes are those of torch/distributed/fsdp/_fully_shard in PyTorch 2.6 to main. What not every version has is read
with a default; a comment at each says since when. Nothing here touches the GPU.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from typing import Any


def find_roots(model: Any = None) -> list[Any]:
    """The outermost FSDP2 modules in `model`; without one, or where it has none, among all live objects. The first has
    most parameters that are trained (a teacher has none), of such as many the one with most."""
    from torch import nn
    from torch.distributed.fsdp import FSDPModule  # public since 2.6

    found = [m for m in model.modules() if isinstance(m, FSDPModule)] if isinstance(model, nn.Module) else []
    if not found:
        # By type: asking an object for its class may run its code.
        found = [o for o in gc.get_objects() if issubclass(type(o), FSDPModule)]
    inner = {id(child) for module in found for child in module.modules() if child is not module}
    # The modules of a list unit share a state; one that holds nothing but such a list has its own.
    roots = [m for m in found if id(m) not in inner]
    return sorted(roots, key=_elements, reverse=True)


def _elements(root: Any) -> tuple[int, int]:
    """Of the parameters that are trained, and of all."""
    parameters = list(root.parameters())
    return sum(p.numel() for p in parameters if p.requires_grad), sum(p.numel() for p in parameters)


def share_of_first(roots: list[Any]) -> float:
    """The part of all roots' trained parameters that the first has: small where each block is a root of its own."""
    sizes = [_elements(root) for root in roots]
    trained = 0 if any(size[0] for size in sizes) else 1
    return sizes[0][trained] / max(1, sum(size[trained] for size in sizes))


def describe_units(root: Any) -> list[dict[str, Any]]:
    """The units of one root, the root first, the others in the order of named_modules() (which is that of
    FSDPState._lazy_init's all_states). Units refer to one another by name."""
    module_names = {id(module): name for name, module in root.named_modules()}
    names_by_id = parameter_names(root)
    states = list(_states(root))
    names = {id(state): _unit_name(state, root, module_names) for state in states}
    units = []
    for state in states:
        groups = groups_of(state)
        if not groups and state is not states[0]:
            continue  # fully_shard on a module whose parameters all lie in other units does nothing
        unit = {
            "unit": names[id(state)],
            "modules": [module_names.get(id(module), "") for module in getattr(state, "_modules", ())],
            "forward_prefetch": _prefetched(state, "_states_to_forward_prefetch", names),
            "backward_prefetch": _prefetched(state, "_states_to_backward_prefetch", names),
            # 2.8 and later; before, the root never reshards after forward (FSDPState._lazy_init).
            "reshard_default": bool(getattr(state, "_auto_reshard_after_forward", True)),
            "groups": [_describe_group(group, names_by_id) for group in groups],
        }
        units.append(unit)
    return units


def parameter_names(root: Any) -> dict[int, str]:
    """By id() of the parameters as they are between two steps, sharded: those that the optimizer has."""
    return {id(parameter): name for name, parameter in root.named_parameters()}


def reduces_gradients(root: Any) -> bool:
    """Whether a backward that began now would reduce its gradients (set_requires_gradient_sync)."""
    return any(group.reduce_grads for state in _states(root) for group in groups_of(state))


def waits_for_optimizer_event(root: Any) -> bool:
    """Whether the next gathers wait for an event of the optimizer (set_post_optim_event) and not for the stream."""
    context = getattr(_state(root), "_state_ctx", None)
    return getattr(context, "post_optim_event", None) is not None


def _state(module: Any) -> Any:
    return module._get_fsdp_state()  # FSDPModule


def _states(root: Any) -> Iterable[Any]:
    """Each FSDPState below `root` once."""
    from torch.distributed.fsdp import FSDPModule

    seen: set[int] = set()
    for module in root.modules():
        if not isinstance(module, FSDPModule):
            continue
        state = _state(module)
        if id(state) not in seen:
            seen.add(id(state))
            yield state


def groups_of(state: Any) -> list[Any]:
    """FSDPState._fsdp_param_groups (2.12 and later: one for each mesh), before it _fsdp_param_group or None."""
    groups = getattr(state, "_fsdp_param_groups", None)
    if groups is not None:
        return list(groups)
    group = getattr(state, "_fsdp_param_group", None)
    return [] if group is None else [group]


def _unit_name(state: Any, root: Any, module_names: dict[int, str]) -> str:
    """The name in FSDP's ranges (FSDPParamGroup._module_fqn, set in FSDPState._init_fqns): a list's joined by ", "."""
    if state is _state(root):
        return ""
    for group in groups_of(state):
        if getattr(group, "_module_fqn", None) is not None:
            return str(group._module_fqn)
    return ", ".join(module_names.get(id(module), "") for module in getattr(state, "_modules", ()))


def _prefetched(state: Any, attribute: str, names: dict[int, str]) -> list[str]:
    return [names[id(target)] for target in getattr(state, attribute, ()) if id(target) in names]


def _describe_group(group: Any, parameter_names: dict[int, str]) -> dict[str, Any]:
    """One FSDPParamGroup."""
    policy = group.mp_policy
    return {
        "mesh": _describe_mesh(group.mesh_info),
        "reshard_after_forward": _reshard(group),
        "param_dtype": _dtype(getattr(policy, "param_dtype", None)),
        "reduce_dtype": _dtype(getattr(policy, "reduce_dtype", None)),
        "output_dtype": _dtype(getattr(policy, "output_dtype", None)),
        "cast_forward_inputs": bool(getattr(policy, "cast_forward_inputs", True)),
        "unshard_async_op": bool(getattr(group, "unshard_async_op", False)),
        "unshard_in_backward": bool(getattr(group, "unshard_in_backward", True)),
        "reshard_after_backward": bool(getattr(group, "reshard_after_backward", True)),
        "offload_policy": type(getattr(group, "offload_policy", None)).__name__,
        # 2.7 and later a factor; before, an operation (reduce_scatter_reduce_op).
        "gradient_divide_factor": getattr(group, "gradient_divide_factor", None),
        "reduce_scatter_reduce_op": _text(getattr(group, "reduce_scatter_reduce_op", None)),
        # 2.8 and later (set_force_sum_reduction_for_comms, set_custom_all_gather, set_custom_reduce_scatter).
        "force_sum_reduction": bool(getattr(group, "force_sum_reduction_for_comms", False)),
        "all_gather_comm": _class_of(getattr(group, "_all_gather_comm", None)),
        "reduce_scatter_comm": _class_of(getattr(group, "_reduce_scatter_comm", None)),
        # 2.13 and later (set_reduce_scatter_max_input_buffers, set_separate_reduce_scatter_group).
        "reduce_scatter_max_input_buffers": getattr(group, "reduce_scatter_max_input_buffers", None),
        "separate_reduce_scatter_group": _separate_groups(group),
        "parameters": [_describe_parameter(parameter, parameter_names) for parameter in group.fsdp_params],
    }


def _describe_parameter(parameter: Any, parameter_names: dict[int, str]) -> dict[str, Any]:
    """One FSDPParam. Its sharded_param is a DTensor over FSDP's and, where there is one, tensor parallelism's mesh:
    `shape` is the whole parameter's, `local_shape` what FSDP shards of it on this rank (FSDPParam._orig_size)."""
    sharded = parameter.sharded_param
    mesh = getattr(sharded, "device_mesh", None)
    placement = getattr(parameter, "fsdp_placement", None)
    name = parameter_names.get(id(sharded)) or getattr(parameter, "_param_fqn", None)
    return {
        "name": name,
        "shape": list(sharded.shape),
        "local_shape": list(parameter._orig_size),
        "dtype": _dtype(sharded.dtype),
        "requires_grad": bool(sharded.requires_grad),
        "shard_dim": getattr(placement, "dim", 0),
        "placements": [str(p) for p in getattr(sharded, "placements", ())],
        "mesh_dim_names": list(getattr(mesh, "mesh_dim_names", None) or ()),
        "mesh_shape": list(mesh.shape) if mesh is not None else [],
        "offload_to_cpu": bool(getattr(parameter, "offload_to_cpu", False)),
        "pin_memory": bool(getattr(parameter, "pin_memory", False)),
    }


def _describe_mesh(info: Any) -> dict[str, Any]:
    """FSDPMeshInfo, or HSDPMeshInfo, which has a replicate dimension."""
    mesh = getattr(info, "mesh", None)
    return {
        "shard": int(getattr(info, "shard_mesh_size", 1)),
        "replicate": int(getattr(info, "replicate_mesh_size", 1)),
        "dim_names": list(getattr(mesh, "mesh_dim_names", None) or ()),
        "shape": list(mesh.shape) if mesh is not None else [],
    }


def _reshard(group: Any) -> bool | int:
    """reshard_after_forward as fully_shard takes it, back from FSDPParamGroup.post_forward_mesh_info
    (_get_post_forward_mesh_info): none for False, the mesh's own for True, a smaller one for an int."""
    after = getattr(group, "post_forward_mesh_info", None)
    if after is None:
        return False
    size = int(getattr(after, "shard_mesh_size", 1))
    return True if size == int(getattr(group.mesh_info, "shard_mesh_size", 1)) else size


def _separate_groups(group: Any) -> bool:
    """Whether gathers and reduce-scatters have a communicator each (FSDPParamGroup's two properties)."""
    try:
        return group._reduce_scatter_process_group is not group._all_gather_process_group
    except (AttributeError, AssertionError, RuntimeError):  # a mesh of one rank, or without a shard dimension
        return False


def _dtype(dtype: Any) -> str | None:
    return None if dtype is None else str(dtype).removeprefix("torch.")


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _class_of(value: Any) -> str | None:
    return None if value is None else type(value).__name__
