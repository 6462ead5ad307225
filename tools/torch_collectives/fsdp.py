"""A small model with uneven shards, trained with NCCL and with foreshard's collectives from the same weights: losses
and parameters bit by bit, in float32 and bfloat16, resharding and not, with accumulation, a divide factor and async
unshard. torchrun.

By SGD, whose steps are as long as the gradients: Adam's are about the learning rate long whatever they are scaled by.
Where rounding differs (another order of sums, a divide factor), each unit's parameters must end where NCCL's did within
APART of the way that they went. On the CPU gradients of zero were off by all of it, doubled ones by 0.8, a divide
factor of 2 for 3 by 0.4, a rank of eight that was left out by 0.2, rounding in bfloat16 by 0.006."""

import math
import os
import sys

import foreshard.collectives
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

APART = 2.0**-4
SETTINGS = {
    "float32": {},
    "bfloat16, float32 sums": {"param": torch.bfloat16, "reduce": torch.float32},
    "bfloat16": {"param": torch.bfloat16},
    "no reshard": {"param": torch.bfloat16, "reduce": torch.float32, "reshard": False},
    "accumulation": {"param": torch.bfloat16, "reduce": torch.float32, "accumulate": 3},
    "divide factor": {"param": torch.bfloat16, "reduce": torch.float32, "factor": 3.0},
    "async unshard": {"param": torch.bfloat16, "reduce": torch.float32, "async_op": True},
}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(517, 1031), nn.GELU(), nn.Linear(1031, 517)) for _ in range(6)
        )
        self.head = nn.Linear(517, 13)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x)


def train(device, own, param=None, reduce=None, reshard=True, accumulate=1, factor=None, async_op=False):
    torch.manual_seed(0)
    model = Model().to(device)
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    policy = MixedPrecisionPolicy(param_dtype=param, reduce_dtype=reduce)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    if factor:
        model.set_gradient_divide_factor(factor)
    if async_op:
        model._set_unshard_async_op(True)
    if own:
        served = foreshard.collectives.enable(model)
        assert not any(one.reason for one in served), served
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    start = units_of(model)
    random = torch.Generator(device).manual_seed(dist.get_rank())
    losses = []
    for _ in range(8):
        for turn in range(accumulate):
            model.set_requires_gradient_sync(turn == accumulate - 1)
            x = torch.randn(32, 517, device=device, generator=random)
            loss = model(x).float().square().mean()
            loss.backward()
        losses.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
    return losses, start, units_of(model)


def units_of(model):
    """This rank's parameters, a tensor a unit."""
    return [
        torch.cat([parameter.to_local().detach().flatten() for parameter in unit.parameters()])
        for unit in (*model.layers, model.head)
    ]


def apart(start, reference, parameters):
    """How far a unit's parameters are from the reference, of the way that this went from the start."""
    differ, way = (parameters - reference).norm().item(), (reference - start).norm().item()
    return differ / way if way else 0.0 if differ == 0 else math.inf


def main():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    differ = 0
    for name, setting in SETTINGS.items():
        theirs, start, reference = train(device, False, **setting)
        ours, _, parameters = train(device, True, **setting)
        furthest = [apart(*unit) for unit in zip(start, reference, parameters, strict=True)]
        same = ours == theirs and all(map(torch.equal, reference, parameters))
        # Two ranks' sums have one order; of more NCCL's ring has another.
        exact = dist.get_world_size() == 2 and "factor" not in setting
        good = same if exact else all(one < APART for one in furthest)  # NaN is not
        differ += not good
        if dist.get_rank() == 0:
            print(f"{name}: {'the same bits' if same else f'a unit differs by {max(furthest):.2e} of its way'}"
                  f"{'' if good else ': WRONG'} (loss {theirs[0]:.6f} to {theirs[-1]:.6f})", flush=True)  # fmt: skip
    sys.stdout.flush()
    dist.barrier()
    dist.destroy_process_group()
    sys.exit(differ > 0)


main()
