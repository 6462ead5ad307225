"""A model that was built outside a fake recording, brought into it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def blocks_of(model: Any) -> list[Any]:
    """The modules that are wrapped by themselves as a rule: the elements of every nn.ModuleList that lies in no other
    one and whose elements have parameters and a forward of their own kind (decoder layers, encoder blocks, vision
    blocks), in the model's order."""
    from torch import nn

    found: list[Any] = []

    def walk(module: nn.Module) -> None:
        for child in module.children():
            if isinstance(child, nn.ModuleList) and len(child) > 1 and len({type(one) for one in child}) == 1:
                found.extend(one for one in child if any(True for _ in one.parameters()))
            else:
                walk(child)

    walk(model)
    return found


def shard_blocks(model: Any, mp_policy: Any = None, **options: Any) -> Any:
    """fully_shard on each block, then on the model; `options` are fully_shard's. Inside a recording."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    mesh = options.pop("mesh", None) or init_device_mesh("cuda", (dist.get_world_size(),))
    policy = mp_policy or MixedPrecisionPolicy()
    for block in blocks_of(model):
        fully_shard(block, mesh=mesh, mp_policy=policy, **options)
    fully_shard(model, mesh=mesh, mp_policy=policy, **options)
    return model


def adopt(model: Any, optimizer: Any, shard: Callable[[Any], Any] | None) -> None:
    """Moves a model of the CPU or of meta tensors to the fake GPU and shards it, and points the optimizer to its new
    parameters. Raises ValueError for one that is sharded already, on a process group that is not this recording's."""
    from torch.distributed.fsdp import FSDPModule

    if any(isinstance(module, FSDPModule) for module in model.modules()):
        raise ValueError(
            "the model was sharded outside the fake recording: call fully_shard inside it, or in record_fake's `shard`"
        )
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    if any(parameter.device.type == "meta" for parameter in model.parameters()):
        model.to_empty(device="cuda")
    else:
        model.to("cuda")
    (shard or shard_blocks)(model)
    parameters = dict(model.named_parameters())
    for group in optimizer.param_groups if optimizer is not None else []:
        group["params"] = [parameters[names[id(one)]] if id(one) in names else one for one in group["params"]]
