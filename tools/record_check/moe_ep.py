"""A decoder with a mixture of experts under FSDP2 and expert parallelism, wrapped as torchtitan wraps its own.

Each block has causal attention and top-2 of 8 experts. With --ep N the experts' three matrices are DTensors over N
neighbouring ranks (torchtitan's ExpertParallel), sharded by FSDP2 over the rest of the mesh as a unit of their own
inside the block's unit; everything else is sharded over all ranks. Tokens go to their experts and back by
all_to_all_single with autograd, with split sizes that the host reads off the GPU. --ep 1 leaves all of that out.

    torchrun --nproc-per-node 4 tools/record_check/moe_ep.py --out OUT --ep 2 --balanced            # recorded
    torchrun --nproc-per-node 4 tools/record_check/moe_ep.py --out OUT --ep 2 --balanced --plain    # measured alone

Rank 0 prints one JSON object, and writes it to OUT/NAME.json beside the recording in OUT/NAME.rec (NAME says the
flags): times of steps, peaks of torch.cuda.memory_stats() after each of the first four steps, and tokens that ranks
received. Times are of steps with nothing recording. Peaks of --plain are each step's own; of a recording they grow.
PyTorch 2.11; experts that N divides, ranks that N divides.
"""

import argparse
import json
import os
import sys
from pathlib import Path

import expert_parallel
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "traces/pytorch/recorder"))
import foreshard  # noqa: E402
from foreshard.timing import StepTimer  # noqa: E402

MEMORY_STEPS, TIMED_STEPS = 4, 10
STEPS = MEMORY_STEPS + TIMED_STEPS + 2
PEAKS = ("requested_bytes.all.peak", "allocated_bytes.all.peak", "active_bytes.all.peak", "reserved_bytes.all.peak",
         "num_alloc_retries")  # fmt: skip


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--ep", type=int, default=2, help="expert-parallel ranks; 1: none")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seq", type=int, default=2048)
    parser.add_argument("--balanced", action="store_true", help="route tokens round-robin, whatever the router says")
    parser.add_argument("--plain", action="store_true", help="measure without recording")
    parser.add_argument("--prefetch", type=int, choices=(0, 1), default=1, help="torchtitan's explicit prefetch")
    parser.add_argument("--keep", action="store_true", help="reshard_after_forward=False")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--dim", type=int, default=2048)
    parser.add_argument("--ffn", type=int, default=4096, help="of one expert")
    parser.add_argument("--experts", type=int, default=8)
    parser.add_argument("--top-k", type=int, default=2)
    parser.add_argument("--vocabulary", type=int, default=32000)
    parsed = parser.parse_args()
    parsed.name = f"moe_ep{parsed.ep}_b{parsed.batch}_s{parsed.seq}"
    for flag, said in (("balanced", parsed.balanced), ("keep", parsed.keep), ("implicit", not parsed.prefetch),
                       ("plain", parsed.plain)):  # fmt: skip
        parsed.name += f"_{flag}" if said else ""
    return parsed


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim, bias=False) for _ in range(4))

    def forward(self, x):
        q, k, v = (w(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(o.transpose(1, 2).flatten(2))


class Router(nn.Module):
    """TokenChoiceTopKRouter: a softmax in float32, the best k, their scores made to add up to one."""

    def __init__(self, config):
        super().__init__()
        self.experts, self.top_k, self.balanced = config.experts, config.top_k, config.balanced
        self.gate = nn.Linear(config.dim, config.experts, bias=False)

    def forward(self, x):
        scores = F.softmax(self.gate(x).float(), dim=-1)
        if self.balanced:
            chosen = torch.arange(x.shape[0] * self.top_k, device=x.device).view(-1, self.top_k) % self.experts
        else:
            chosen = torch.topk(scores.detach(), self.top_k, dim=-1).indices
        best = scores.gather(1, chosen)
        return best / best.sum(-1, keepdim=True), chosen


class Experts(nn.Module):
    """GroupedExperts and, with a mesh, ExpertParallel's dispatch and combine around it."""

    def __init__(self, config):
        super().__init__()
        self.w1 = nn.Parameter(torch.empty(config.experts, config.ffn, config.dim))
        self.w2 = nn.Parameter(torch.empty(config.experts, config.dim, config.ffn))
        self.w3 = nn.Parameter(torch.empty(config.experts, config.ffn, config.dim))
        self.mesh = None
        self.received = []

    def multiply(self, x, counts):
        w1, w2, w3 = (expert_parallel.local(w) for w in (self.w1, self.w2, self.w3))
        ends = counts.cumsum(0, dtype=torch.int32)
        h = F.silu(torch._grouped_mm(x, w1.transpose(-2, -1), offs=ends))
        h = h * torch._grouped_mm(x, w3.transpose(-2, -1), offs=ends)
        return torch._grouped_mm(h, w2.transpose(-2, -1), offs=ends)

    def forward(self, x, counts):
        if self.mesh is None:
            return self.multiply(x, counts)
        out, received = expert_parallel.dispatched(x, counts, self.mesh, self.multiply)
        self.received.append(received)
        return out


class MixtureOfExperts(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.count, self.top_k = config.experts, config.top_k
        self.router = Router(config)
        self.experts = Experts(config)

    def forward(self, x):
        shape = x.shape
        x = x.view(-1, shape[-1])
        scores, chosen = self.router(x)
        counts = torch.histc(chosen.view(-1).int(), bins=self.count, min=0, max=self.count - 1).long()
        order = torch.argsort(chosen.view(-1), stable=True)
        out = self.experts(x[order // self.top_k], counts)
        unsorted = out.new_empty(out.shape)
        unsorted[order] = out
        mixed = torch.bmm(scores.unsqueeze(1), unsorted.view(-1, self.top_k, shape[-1]).float())
        return mixed.to(x.dtype).view(shape)


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention_norm = nn.RMSNorm(config.dim)
        self.attention = Attention(config.dim, config.dim // 128)
        self.ffn_norm = nn.RMSNorm(config.dim)
        self.moe = MixtureOfExperts(config)

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.moe(self.ffn_norm(x))


class Decoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.tok_embeddings = nn.Embedding(config.vocabulary, config.dim)
        self.layers = nn.ModuleList([Block(config) for _ in range(config.layers)])
        self.norm = nn.RMSNorm(config.dim)
        self.output = nn.Linear(config.dim, config.vocabulary, bias=False)

    def forward(self, tokens):
        x = self.tok_embeddings(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


def shard(model, config):
    """torchtitan's apply_fsdp: the experts' unit first, on its own mesh and divided by all ranks; then the blocks."""
    dense, sparse = expert_parallel.meshes(config.ep)
    how = {
        "mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32),
        "reshard_after_forward": not config.keep,
    }
    for layer in model.layers:
        if config.ep > 1:
            layer.moe.experts.mesh = sparse["ep"]
            expert_parallel.shard_experts(layer.moe.experts, config.experts, sparse, **how)
        fully_shard(layer, mesh=dense, **how)
    fully_shard(model, mesh=dense, **how)
    if config.ep > 1 and config.prefetch:
        expert_parallel.prefetch([(layer, layer.moe.experts) for layer in model.layers])


def materialise(model, device):
    expert_parallel.materialise(model, device)
    for module in model.modules():
        if isinstance(module, nn.RMSNorm):
            nn.init.ones_(expert_parallel.local(module.weight.detach()))


class Measured:
    """Peaks after the first steps; without a recorder also times of those behind, by the recorder's own timer."""

    def __init__(self, plain):
        self.plain, self.peaks, self.timer, self.done = plain, [], None, False
        if plain:
            torch.cuda.reset_peak_memory_stats()

    def step(self):
        if len(self.peaks) < MEMORY_STEPS:
            statistics = torch.cuda.memory_stats()
            self.peaks.append({key: statistics.get(key) for key in PEAKS})
            if self.plain:
                torch.cuda.reset_peak_memory_stats()
                if len(self.peaks) == MEMORY_STEPS:
                    self.timer = StepTimer(TIMED_STEPS)
                    self.timer.start()
        elif self.timer is not None and not self.done:
            self.done = self.timer.step()

    def times(self, folder):
        """{"step_ms": …, "host_issue_ms": …}, where there are any."""
        if self.timer is not None:
            return {"step_ms": self.timer.step_ms(), "host_issue_ms": self.timer.host_issue_ms}
        about = folder / "about.json"
        return json.loads(about.read_text()).get("measured", {}) if about.exists() else {}


def imbalance(model):
    """Tokens that each rank received in a block and step; the largest over the mean, of the last step's blocks."""
    last = torch.tensor([layer.moe.experts.received[-1] for layer in model.layers], dtype=torch.float64)
    ranks = [None] * dist.get_world_size()
    dist.all_gather_object(ranks, last.tolist())
    table = torch.tensor(ranks, dtype=torch.float64)
    return {"received": ranks, "imbalance": (table.max(0).values / table.mean(0)).tolist()}


def train(model, optimizer, config, device, recording, measured):
    tokens = (config.batch, config.seq)
    for _ in range(STEPS):
        optimizer.zero_grad()
        ids = torch.randint(0, config.vocabulary, tokens, device=device)
        F.cross_entropy(model(ids).flatten(0, 1).float(), ids.flatten()).backward()
        optimizer.step()
        if recording is not None:
            recording.step()
        measured.step()


def main():
    config = options()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    world, rank = dist.get_world_size(), dist.get_rank()
    if world % config.ep or config.experts % config.ep:
        raise SystemExit(f"--ep {config.ep} has to divide {world} ranks and {config.experts} experts")
    config.out.mkdir(parents=True, exist_ok=True)
    folder = config.out / f"{config.name}.rec"
    torch.manual_seed(rank)
    if not config.plain:
        foreshard.record_setup()
    with torch.device("meta"):
        model = Decoder(config)
    shard(model, config)
    materialise(model, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    measured = Measured(config.plain)
    problems = []
    if config.plain:
        train(model, optimizer, config, device, None, measured)
    else:
        with foreshard.record(folder, model, optimizer, measure=TIMED_STEPS) as recording:
            train(model, optimizer, config, device, recording, measured)
        problems = recording.problems
    torch.cuda.synchronize()
    result = {"name": config.name, "torch": torch.__version__, "gpu": torch.cuda.get_device_name(), "ranks": world}
    result |= {key: str(value) if key == "out" else value for key, value in vars(config).items()}
    result |= {"memory_steps": measured.peaks, "problems": problems}
    result |= imbalance(model) if config.ep > 1 else {}
    dist.barrier()
    if rank == 0:
        result |= measured.times(folder)
        (config.out / f"{config.name}.json").write_text(json.dumps(result, indent=1) + "\n")
        print(json.dumps(result))
    dist.destroy_process_group()


main()
