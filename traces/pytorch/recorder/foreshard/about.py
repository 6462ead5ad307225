"""about.json: a run's set-up in foreshard's words (docs/formats.md, "About file"), from what was read of it.

Pure functions over what units.py, environment.py, model_facts.py and inputs.py return. A key whose value was not found
out is left out. foreshard refuses keys that it does not know, so whatever has no key there stands in rank.json.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

from .environment import alloc_conf
from .inputs import batch_and_length
from .model_facts import optimizer_word

# FSDP2's classes of collectives (_fsdp_collectives.py): the first four since 2.8, the others later. None is 2.6 and
# 2.7, which have NCCL's alone.
_TRANSPORTS = {
    None: "nccl",
    "DefaultAllGather": "nccl",
    "DefaultReduceScatter": "nccl",
    "ProcessGroupAllocAllGather": "nccl-registered",
    "ProcessGroupAllocReduceScatter": "nccl-registered",
    "SymmMemAllGather": "symmetric",
    "SymmMemReduceScatter": "symmetric",
}


def make_about(
    environment: dict[str, Any],
    units: list[dict[str, Any]],
    model: dict[str, Any],
    optimizers: list[dict[str, Any]],
    inputs: list[list[dict[str, Any]]],
    measured: dict[str, Any] | None,
) -> dict[str, Any]:
    """The whole file. `inputs` has the forwards of each recorded step; `units` begins with the root."""
    world = environment["world_size"]
    per_node = environment["ranks_per_node"]
    mesh = _most_common(group["mesh"] for _, group in _groups(units)) or {"shard": world, "replicate": 1}
    tensor_parallel = _tensor_parallel(units, mesh)
    expert_parallel = max((_expert_ranks(group, mesh) for _, group in _groups(units)), default=1)
    # With pipeline parallelism the world has several meshes: this is the one that FSDP2 and tensor parallelism share.
    ranks = min(world, mesh["shard"] * mesh["replicate"] * tensor_parallel)
    gpus = min(per_node, ranks)
    if ranks % gpus:  # a mesh over parts of nodes: no settings say which
        gpus = ranks
    batch, length = batch_and_length([forward for step in inputs for forward in _trained(step)])
    about: dict[str, Any] = {"schema": 1, "torch": environment["torch"]}
    for key in ("nccl", "gpu", "sm_count"):
        if environment.get(key):
            about[key] = environment[key]
    about |= {"gpus": gpus, "nodes": max(1, ranks // gpus), "replicate": mesh["replicate"]}
    if tensor_parallel > 1:
        about["tensor_parallel"] = tensor_parallel
    if expert_parallel > 1:
        about["expert_parallel"] = expert_parallel
    if batch is not None:
        about |= {"batch": batch, "seq": length}
    about["settings"] = _settings(environment, units, model, optimizers, inputs)
    about["root_reshard_explicit"] = not units[0]["reshard_default"]
    if measured is not None:
        about["measured"] = measured
    param_groups = _param_groups(optimizers, units)
    if len(param_groups) > 1:
        about["optimizer_param_groups"] = param_groups
    about["units"] = _unit_lists(units, mesh)
    if model.get("config"):
        about["model_config"] = model["config"]
    return about


def _expert_ranks(group: dict[str, Any], mesh: dict[str, int]) -> int:
    """Ranks that a group's parameters are split over before FSDP2 shards them over the rest of `mesh`, which is the
    model's: experts under expert parallelism, DTensors over both dimensions. 1: it is of the whole mesh."""
    own = group["mesh"]
    split, left = divmod(mesh["shard"], max(1, own["shard"]))
    if left or split < 2 or own["replicate"] != mesh["replicate"]:
        return 1
    on = own["shard"] * own["replicate"] * split
    return split if all(math.prod(p.get("mesh_shape") or [0]) == on for p in group["parameters"]) else 1


def _tensor_parallel(units: list[dict[str, Any]], mesh: dict[str, int]) -> int:
    """Ranks of the mesh dimensions that parameters lie on beside FSDP2's own: parallelize_module made them DTensors
    (FSDPParam._init_sharded_param). What else divides the world, pipeline parallelism, divides no parameter."""
    most = 1
    for _, group in _groups(units):
        if _expert_ranks(group, mesh) > 1:
            continue
        own = group["mesh"]["shard"] * group["mesh"]["replicate"]
        for parameter in group["parameters"]:
            most = max(most, math.prod(parameter.get("mesh_shape") or [own]) // max(1, own))
    return most


def _trained(step: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The forwards of a step that a backward followed, or of which that is not known: not an evaluation's."""
    return [forward for forward in step if forward.get("backward") is not False]


def _settings(
    environment: dict[str, Any],
    units: list[dict[str, Any]],
    model: dict[str, Any],
    optimizers: list[dict[str, Any]],
    inputs: list[list[dict[str, Any]]],
) -> dict[str, Any]:
    groups = [group for _, group in _groups(units)]
    settings: dict[str, Any] = {
        "param_dtype": _most_common(group["param_dtype"] for group in groups),
        "reduce_dtype": _most_common(group["reduce_dtype"] for group in groups),
        "unshard_async": any(group["unshard_async_op"] for group in groups),
        "offload": any(group["offload_policy"] == "CPUOffloadPolicy" for group in groups),
        "units_per_group": _modules_a_unit(units),
        "alloc_conf": alloc_conf(environment),
    }
    kept = max((group.get("reduce_scatter_max_input_buffers") or 1 for group in groups), default=1)
    if kept > 1:  # the largest of the root's tree counts (FSDPState._init_shared_state)
        settings["reduce_scatter_max_input_buffers"] = kept
    if any(group.get("separate_reduce_scatter_group") for group in groups):
        settings["separate_reduce_scatter_group"] = True
    settings |= _reshard_settings(units)
    settings |= _prefetch_settings(units)
    settings |= _transports(groups, environment.get("zero_cta"))
    settings |= _accumulation(inputs)
    checkpoint = _checkpoint(units, model)
    if checkpoint is not None:
        settings["checkpoint"] = checkpoint
    words = {optimizer_word(optimizer) for optimizer in optimizers}
    if len(words) == 1 and None not in words:
        settings["optimizer"] = words.pop()
    return settings


def _param_groups(optimizers: list[dict[str, Any]], units: list[dict[str, Any]]) -> list[list[str]]:
    """Names of the parameters of each of the optimizer's groups; none where there are several optimizers, or where one
    has parameters that are in no unit."""
    known = {parameter["name"] for _, group in _groups(units) for parameter in group["parameters"]}
    groups = optimizers[0].get("param_groups", []) if len(optimizers) == 1 else []
    named = all(name in known for group in groups for name in group)
    return [group for group in groups if group] if named else []


def _reshard_settings(units: list[dict[str, Any]]) -> dict[str, Any]:
    """The value that most units have, and the units that differ. The root counts only where it was told: left alone it
    does not reshard (FSDPState._lazy_init), which `root_reshard_explicit` says."""
    of_unit = {
        unit["unit"]: unit["groups"][0]["reshard_after_forward"]
        for unit in units
        if unit["groups"] and (unit["unit"] or not unit["reshard_default"])
    }
    inner = [value for name, value in of_unit.items() if name] or list(of_unit.values())
    # Written as they print: True and 1 are equal as keys.
    common = _most_common(repr(value) for value in inner)
    settings: dict[str, Any] = {"reshard_after_forward": next((v for v in inner if repr(v) == common), True)}
    others = {name: value for name, value in of_unit.items() if repr(value) != common}
    if others and common is not None:
        settings["reshard_of_unit"] = others
    return settings


def _prefetch_settings(units: list[dict[str, Any]]) -> dict[str, Any]:
    """Depths where every unit prefetches its next (previous) N, as PyTorch's documentation sets them, else lists."""
    names = [unit["unit"] for unit in units if unit["unit"]]
    forward = {unit["unit"]: unit["forward_prefetch"] for unit in units if unit["forward_prefetch"]}
    backward = {unit["unit"]: unit["backward_prefetch"] for unit in units if unit["backward_prefetch"]}
    settings: dict[str, Any] = {}
    lists: dict[str, Any] = {}
    depth = _depth(forward, names)
    if depth is None:
        lists["forward"] = forward
    settings["forward_prefetch"] = depth or "implicit"
    depth = _depth(backward, names[::-1])
    if depth is None:
        lists["backward"] = backward
    settings["backward_prefetch"] = depth or "default"
    if lists:
        settings["prefetch_lists"] = lists
    return settings


def _depth(lists: dict[str, list[str]], names: list[str]) -> int | None:
    """N where each unit's list is the next N in `names`; 0 where there are no lists; None for anything else."""
    depth = max((len(targets) for targets in lists.values()), default=0)
    following = {name: names[i + 1 : i + 1 + depth] for i, name in enumerate(names)}
    return depth if lists == {name: targets for name, targets in following.items() if targets} else None


def _transports(groups: list[dict[str, Any]], zero_cta: bool | None) -> dict[str, Any]:
    """What the collectives go through; a class that is not FSDP2's says nothing."""
    settings = {}
    for key, attribute in (("all_gather", "all_gather_comm"), ("reduce_scatter", "reduce_scatter_comm")):
        transport = _TRANSPORTS.get(_most_common(group[attribute] for group in groups))
        if transport == "symmetric" and zero_cta:
            transport = "copy-engine"
        if transport is not None:
            settings[key] = transport
    return settings


def _accumulation(inputs: list[list[dict[str, Any]]]) -> dict[str, Any]:
    """Forwards with a backward a step. With several, whether each backward reduces."""
    forwards = next((_trained(step) for step in reversed(inputs) if _trained(step)), None)
    if forwards is None:
        return {}
    settings: dict[str, Any] = {"accumulate": len(forwards)}
    if len(forwards) > 1:
        settings["accumulate_with_sync"] = all(forward["reduces"] for forward in forwards)
    return settings


def _checkpoint(units: list[dict[str, Any]], model: dict[str, Any]) -> str | None:
    """`blocks` and `selective-op` where every inner unit is checkpointed; None where only some are, or no wrapper is
    found: a model may call torch.utils.checkpoint itself, and the importer reads that off the recording."""
    whole, selective = model["checkpointed"], model["checkpointed_selectively"]
    if not whole and not selective:
        return None
    inner = [module for unit in units if unit["unit"] for module in unit["modules"]]
    blocks = [module for module in inner if any(_is_in(name, module) for name in whole + selective)]
    # Embeddings, norms and heads are units of their own in many models: a few stay without.
    few = 3
    if not blocks or (whole and selective) or len(inner) - len(blocks) > few:
        return None
    return "selective-op" if selective else "blocks"


def _is_in(name: str, module: str) -> bool:
    return name in ("", module) or name.startswith(module + ".") or module.startswith(name + ".")


def _modules_a_unit(units: list[dict[str, Any]]) -> int:
    return _most_common(max(1, len(unit["modules"])) for unit in units if unit["unit"]) or 1


def _unit_lists(units: list[dict[str, Any]], mesh: dict[str, int]) -> list[dict[str, Any]]:
    """`requires_grad` only where something is frozen: otherwise the recording says it, unused parameters included."""
    frozen = any(not parameter["requires_grad"] for _, group in _groups(units) for parameter in group["parameters"])
    keys = ("dtype",) + (("requires_grad",) if frozen else ())

    def row(parameter: dict[str, Any], group: dict[str, Any]) -> dict[str, Any]:
        # What FSDP2 shards of a DTensor parameter is the rank's local tensor.
        shape = parameter.get("local_shape", parameter["shape"])
        experts = {"expert_parallel": True} if _expert_ranks(group, mesh) > 1 else {}
        dim = {"shard_dim": parameter["shard_dim"]} if parameter.get("shard_dim") else {}
        return {"name": parameter["name"], "shape": shape} | {key: parameter[key] for key in keys} | experts | dim

    return [
        {
            "unit": unit["unit"],
            "parameters": [row(parameter, group) for group in unit["groups"] for parameter in group["parameters"]],
        }
        | ({"groups": [len(group["parameters"]) for group in unit["groups"]]} if len(unit["groups"]) > 1 else {})
        for unit in units
    ]


def _groups(units: list[dict[str, Any]]) -> Iterable[tuple[dict[str, Any], dict[str, Any]]]:
    return ((unit, group) for unit in units for group in unit["groups"])


def _most_common(values: Iterable[Any]) -> Any:
    """The most frequent value, the first of them where several are; None without any."""
    values = list(values)
    counts = Counter(repr(value) for value in values)
    return max(values, key=lambda value: counts[repr(value)]) if values else None
