"""A Hugging Face model with experts over several ranks, from its config.json: what `foreshard plan CONFIG
--expert-parallel N` plans, trained (docs/experts.md).

    torchrun --nproc-per-node 4 tools/record_check/hf_experts.py --config CONFIG --ep 2 --out OUT --setting plain

Attention, norms and router are the library's (mixtral, qwen3_moe). Behind the router rows go to the ranks that have
their experts as expert_parallel.py does it, and blocks are wrapped and prefetched as torchtitan's. Routing is
round-robin (tokens · k / experts rows each) in place of the router's choice, or the choice itself with --skewed.
--setting as in the other scripts of this folder; results are OUT/NAME.SETTING.json, with NAME the configuration's file
name, N, batch and length. PyTorch 2.11, transformers 5.
"""

import argparse
import json
from pathlib import Path

import common
import expert_parallel
import hf_model
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, required=True, help="config.json of the model")
    parser.add_argument("--ep", type=int, default=2, help="expert-parallel ranks, neighbours")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--seq", type=int, default=2048)
    parser.add_argument("--skewed", action="store_true", help="route as the router says")
    return common.options(parser, lambda p: f"{p.config.stem}_ep{p.ep}_b{p.batch}_s{p.seq}" + "_skewed" * p.skewed)


class GroupedExperts(nn.Module):
    """The library's stacked weights of a block, multiplied as its grouped_mm_experts_forward does."""

    def __init__(self, of):
        super().__init__()
        self.gate_up_proj, self.down_proj, self.act = of.gate_up_proj, of.down_proj, of.act_fn
        self.mesh, self.received = None, []

    def multiply(self, rows, counts):
        ends = counts.cumsum(0, dtype=torch.int32)
        gate_up, down = (expert_parallel.local(w).transpose(-2, -1) for w in (self.gate_up_proj, self.down_proj))
        gate, up = torch._grouped_mm(rows, gate_up, offs=ends).chunk(2, dim=-1)
        return torch._grouped_mm(self.act(gate) * up, down, offs=ends)

    def forward(self, rows, counts):
        out, received = expert_parallel.dispatched(rows, counts, self.mesh, self.multiply)
        self.received.append(received)
        return out


class Dispatcher(nn.Module):
    """Stands in for the library's experts: rows by expert, and a token's results added up."""

    def __init__(self, of, count):
        super().__init__()
        self.grouped, self.count = GroupedExperts(of), count

    def forward(self, tokens, chosen, scores):
        ids, k = chosen.reshape(-1), chosen.shape[-1]
        counts = torch.histc(ids, bins=self.count, min=0, max=self.count - 1)
        _, order = torch.sort(ids)
        rows, row_scores = tokens[order // k], scores.reshape(-1)[order]
        weighted = self.grouped(rows, counts) * row_scores.unsqueeze(-1)
        back = torch.empty_like(order)
        back[order] = torch.arange(order.numel(), device=order.device)
        return weighted[back].view(tokens.shape[0], k, -1).sum(1).to(tokens.dtype)


def route_round_robin(count):
    """A hook of the router that overwrites its choice, without memory of its own."""

    def hook(_router, _inputs, result):
        chosen = result[-1].detach().view(-1)
        torch.arange(chosen.numel(), out=chosen.data)
        chosen.data.remainder_(count)

    return hook


def shard(model, parsed, count):
    """Returns the blocks, each with its experts (None of a dense one)."""
    dense, sparse = expert_parallel.meshes(parsed.ep)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    how = {"mp_policy": policy, "reshard_after_forward": parsed.reshard}
    out = []
    for block in model.model.layers:
        grouped = None
        if hasattr(block.mlp, "experts"):
            block.mlp.experts = Dispatcher(block.mlp.experts, count)
            grouped = block.mlp.experts.grouped
            grouped.mesh = sparse["ep"]
            if not parsed.skewed:
                block.mlp.gate.register_forward_hook(route_round_robin(count))
            expert_parallel.shard_experts(grouped, count, sparse, **how)
        fully_shard(block, mesh=dense, **how)
        out.append((block, grouped))
    fully_shard(model, mesh=dense, mp_policy=policy)
    expert_parallel.prefetch(out)
    return out


def tell_received(parsed, blocks):
    """Rows that each rank received in the last step, by block; the largest over the mean."""
    mine = [grouped.received[-1] for _, grouped in blocks if grouped is not None]
    ranks = [None] * dist.get_world_size()
    dist.all_gather_object(ranks, mine)
    if dist.get_rank() == 0:
        table = torch.tensor(ranks, dtype=torch.float64)
        largest = (table.max(0).values / table.mean(0)).tolist()
        path = parsed.out / f"{parsed.name}.{parsed.setting}.received.json"
        path.write_text(json.dumps({"received": ranks, "imbalance": largest}) + "\n")


def main():
    parsed = options()
    device = common.start()
    model, vocabulary = hf_model.build(parsed.config)
    config = model.config
    count = getattr(config, "num_experts", None) or config.num_local_experts
    blocks = shard(model, parsed, count)
    hf_model.materialise(model, device, expert_parallel.materialise)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-5)
    recording = lambda: common.foreshard.record(parsed.recording, model, optimizer)  # noqa: E731
    with common.session(parsed, recording) as steps:
        hf_model.train(model, vocabulary, parsed, device, optimizer, steps)
    tell_received(parsed, blocks)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
