"""Where a recording was made: versions, the GPU, the process's place in the job, and what steers PyTorch and NCCL."""

from __future__ import annotations

import os
import platform
from typing import Any

_PREFIXES = ("PYTORCH_", "TORCH_NCCL_", "NCCL_", "FSDP", "TORCH_SYMM_MEM")
_NAMES = ("CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_LAUNCH_BLOCKING", "TORCH_DIST_USE_NCCL2", "OMP_NUM_THREADS")


def describe_environment() -> dict[str, Any]:
    import torch

    rank, world_size = rank_and_world()
    facts: dict[str, Any] = {
        "rank": rank,
        "world_size": world_size,
        "local_rank": _number("LOCAL_RANK"),
        "ranks_per_node": ranks_per_node(world_size),
        "host": platform.node(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": getattr(torch.version, "cuda", None),
        "variables": _variables(),
    }
    if torch.cuda.is_available():
        device = torch.cuda.current_device()
        properties = torch.cuda.get_device_properties(device)
        facts |= {
            "device": device,
            "gpu": torch.cuda.get_device_name(device),
            "sm_count": properties.multi_processor_count,
            "gpu_memory_bytes": properties.total_memory,
            "nccl": ".".join(str(part) for part in torch.cuda.nccl.version()),
            "zero_cta": _zero_cta(device),
        }
    return facts


def alloc_conf(facts: dict[str, Any]) -> str:
    """The allocator's configuration: PYTORCH_ALLOC_CONF (2.9 and later), which comes before PYTORCH_CUDA_ALLOC_CONF."""
    variables = facts["variables"]
    return variables.get("PYTORCH_ALLOC_CONF") or variables.get("PYTORCH_CUDA_ALLOC_CONF") or ""


def rank_and_world() -> tuple[int, int]:
    """Of the process group where there is one, else of torchrun's variables."""
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return _number("RANK") or 0, _number("WORLD_SIZE") or 1


def ranks_per_node(world_size: int) -> int:
    """torchrun's LOCAL_WORLD_SIZE, Slurm's tasks of this node, else all of them on as many GPUs as are seen."""
    import torch

    for name in ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE"):
        number = _number(name)
        if number and world_size % number == 0:
            return number
    seen = torch.cuda.device_count()
    return seen if 0 < seen < world_size and world_size % seen == 0 else world_size


def _variables() -> dict[str, str]:
    return {name: os.environ[name] for name in sorted(os.environ) if name.startswith(_PREFIXES) or name in _NAMES}


def _number(name: str) -> int | None:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else None


def _zero_cta(device: int) -> bool | None:
    """Whether NCCL may gather with the copy engines (ProcessGroupNCCL.Options.config.cta_policy, 2.9 and later); None
    where the group does not say."""
    import torch
    import torch.distributed as dist

    try:
        backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cuda", device))
        return int(backend.options.config.cta_policy) == int(dist.ProcessGroupNCCL.NCCL_CTA_POLICY_ZERO)
    except Exception:  # no group, another back end, or an older PyTorch
        return None
