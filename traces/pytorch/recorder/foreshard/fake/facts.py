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
        "parameters_order": parameters_order,
        "process_groups": process_groups,
        "estimates": estimates,
        "shards_known": True,
        "optimizer_known": optimizer_known,
    }


def _parameter(parameter: dict[str, Any], local_shapes: dict[str, list[int]]) -> list[Any]:
    written = [parameter["name"], local_shapes[parameter["name"]], parameter["dtype"]]
    return [*written, False] if parameter.get("requires_grad") is False else written
