"""The keys of a workload file beside its programs, from an about file's (docs/formats.md)."""

from __future__ import annotations

from typing import Any

_SIZES = ("gpus", "nodes", "replicate", "tensor_parallel", "batch", "seq")
_TIMES = "a fake recording: kernels are priced by the machine profile and host times are those of an H200's machine"


def workload_facts(
    about: dict[str, Any],
    gpu: dict[str, Any],
    name: str,
    parameters_order: list[int],
    optimizer_known: bool,
    read_numbers: list[str],
    compiled: list[str],
    local_shapes: dict[str, list[int]],
    process_groups: list[list[Any]],
) -> dict[str, Any]:
    settings = {key: about.get(key) for key in _SIZES}
    settings |= about["settings"]
    settings["root_reshard_explicit"] = about["root_reshard_explicit"]
    estimates = [_TIMES]
    if read_numbers:
        estimates.append(
            "the script reads numbers of the GPU (item()), which a fake recording takes for 1, and any() for no"
        )
    if process_groups:
        estimates.append("what DTensor's dispatch costs the host is not in it")
    if compiled:
        estimates.append("torch.compile was left out: a fake recording runs eager code")
    order, param_groups = _optimizer_order(about, parameters_order)
    return {
        "name": name,
        "gpu": gpu["gpu"],
        "torch": about["torch"],
        "sm_count": gpu["sm_count"],
        "settings": {key: value for key, value in settings.items() if value is not None},
        "units": [
            {
                "name": unit["unit"],
                "parameters": [_parameter(p, local_shapes) for p in unit["parameters"]],
            }
            for unit in about["units"]
        ],
        "parameters_order": order,
        **({"optimizer_param_groups": param_groups} if param_groups else {}),
        "process_groups": process_groups,
        "estimates": estimates,
        "shards_known": True,
        "optimizer_known": optimizer_known,
    }


def _optimizer_order(about: dict[str, Any], parameters_order: list[int]) -> tuple[list[int], list[int]]:
    """Numbers of the parameters group by group, and how many each group has; as given where there is one group. Those in
    none, frozen ones, follow the last group's."""
    groups = about.get("optimizer_param_groups")
    if not groups:
        return parameters_order, []
    names = [parameter["name"] for unit in about["units"] for parameter in unit["parameters"]]
    number = {name: i for i, name in enumerate(names)}
    order = [number[name] for group in groups for name in group]
    others = [i for i in parameters_order if i not in set(order)]
    counts = [len(group) for group in groups]
    counts[-1] += len(others)
    return order + others, counts


def _parameter(parameter: dict[str, Any], local_shapes: dict[str, list[int]]) -> list[Any]:
    written = [parameter["name"], local_shapes[parameter["name"]], parameter["dtype"]]
    return [*written, False] if parameter.get("requires_grad") is False else written
