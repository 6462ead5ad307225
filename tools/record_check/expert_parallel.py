"""torchtitan's expert parallelism around any module of grouped experts: what the scripts with experts share.

Experts are DTensors over neighbouring ranks (ExpertParallel), sharded by FSDP2 over the rest of the mesh as a unit of
their own inside the block's unit (apply_fsdp). Tokens go to their experts and back by all_to_all_single with autograd,
with split sizes that the host reads off the GPU. PyTorch 2.11.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed._functional_collectives import all_to_all_single, all_to_all_single_autograd
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor


def local(weight):
    return weight.to_local() if isinstance(weight, DTensor) else weight


def split_over(experts, mesh):
    """Each parameter of `experts` becomes a DTensor, its first dimension over the mesh."""
    for name, parameter in list(experts.named_parameters(recurse=False)):
        setattr(experts, name, nn.Parameter(distribute_tensor(parameter, mesh, [Shard(0)])))


def expert_major(counts, ranks, local, rows):
    """Where each row of the expert-major order stands in the rank-major one, and each local expert's rows
    (_generate_permute_indices). `counts` by rank, then by local expert."""
    starts = counts.cumsum(0) - counts
    by_rank = counts.view(ranks, local)
    lengths = by_rank.t().reshape(-1)
    out_starts = lengths.cumsum(0) - lengths
    bias = starts.view(ranks, local).t().reshape(-1) - out_starts
    place = torch.arange(rows, device=counts.device)
    segment = torch.searchsorted(out_starts + lengths, place, right=True)
    return place + bias[segment], by_rank.sum(0)


def dispatched(rows, counts, mesh, multiply):
    """`multiply(rows, each local expert's rows)` on the ranks that have the experts: rows by expert there and back.
    `counts` by expert. Returns the result in the order of `rows`, and how many rows this rank received."""
    group, ranks = mesh.get_group(), mesh.size()
    with torch.no_grad():
        here = all_to_all_single(counts, None, None, group=group)
        here = torch.ops._c10d_functional.wait_tensor(here)
        sent = counts.view(ranks, -1).sum(1).to("cpu", non_blocking=True)
        taken = here.view(ranks, -1).sum(1).to("cpu", non_blocking=False)  # the host waits here
        sent, taken = sent.tolist(), taken.tolist()
    rows = all_to_all_single_autograd(rows, taken, sent, group)
    with torch.no_grad():
        order, of_experts = expert_major(here, ranks, counts.numel() // ranks, sum(taken))
    shape = rows.shape
    rows = rows[order, :]
    out = multiply(rows, of_experts)
    rank_major = out.new_empty(shape)
    rank_major[order, :] = out
    return all_to_all_single_autograd(rank_major, sent, taken, group), sum(taken)


def meshes(ranks):
    """Of everything else, and of experts over `ranks` neighbours."""
    world = dist.get_world_size()
    dense = init_device_mesh("cuda", (world,), mesh_dim_names=("fsdp",))
    sparse = init_device_mesh("cuda", (world // ranks, ranks), mesh_dim_names=("efsdp", "ep"))
    return dense, sparse


def shard_experts(experts, count, sparse, **how):
    """The experts' unit of apply_fsdp, divided by all ranks; `count` experts in all."""
    split_over(experts, sparse["ep"])
    few = count < sparse.size()  # experts, and ranks that shard them
    fully_shard(experts, mesh=sparse["efsdp"], shard_placement_fn=(lambda _: Shard(1)) if few else None, **how)
    experts.set_gradient_divide_factor(float(sparse.size()))


def prefetch(blocks_and_experts):
    """torchtitan's explicit prefetch of one block each way, its experts behind it; experts None of a dense block."""
    of = [[block] + ([experts] if experts is not None else []) for block, experts in blocks_and_experts]
    for one, following in zip(of, of[1:]):
        one[0].set_modules_to_forward_prefetch(following)
        following[0].set_modules_to_backward_prefetch(one)


def materialise(model, device, std=0.02):
    """Every rank fills its own part: DTensor's random numbers would want one mesh for all."""
    model.to_empty(device=device)
    with torch.no_grad():
        for parameter in model.parameters():
            local(parameter).normal_(0, std)
