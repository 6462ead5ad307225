"""The keys of a workload file beside its programs, from an about file's (docs/formats.md)."""

from __future__ import annotations

from typing import Any

_TIMES = "a fake recording: kernels are priced by the machine profile and host times are those of an H200's machine"


def workload_facts(
    about: dict[str, Any],
    gpu: dict[str, Any],
    name: str,
    parameters_order: list[int],
    optimizer_known: bool,
    read_numbers: list[str],
    compiled: list[str],
) -> dict[str, Any]:
    settings = {key: about[key] for key in ("gpus", "nodes", "replicate", "batch", "seq") if about.get(key) is not None}
    settings |= about["settings"]
    settings["root_reshard_explicit"] = about["root_reshard_explicit"]
    estimates = [_TIMES]
    if read_numbers:
        estimates.append(
            "the script reads numbers of the GPU (item()), which a fake recording takes for 1, and any() for no"
        )
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
                "parameters": [
                    [p["name"], p["shape"], p["dtype"], *([False] if p.get("requires_grad") is False else [])]
                    for p in unit["parameters"]
                ],
            }
            for unit in about["units"]
        ],
        "parameters_order": parameters_order,
        "estimates": estimates,
        "shards_known": True,
        "optimizer_known": optimizer_known,
    }
