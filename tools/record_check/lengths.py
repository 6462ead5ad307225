"""Ranks whose samples have lengths of their own: the step of a job, and each rank's peaks.

    torchrun --nproc-per-node 2 tools/record_check/lengths.py --out OUT --lengths 2048,1024
    torchrun --nproc-per-node 2 tools/record_check/lengths.py --out OUT --draw 512,1024,2048,2048 --seed 7

--lengths: rank 0's, rank 1's, ... in all steps; --draw: each rank draws one of these in each step, all alike likely.
Rank 0 writes OUT/lengths_NAME.json: of each rank the lengths, peaks of torch.cuda.memory_stats() of the first four
steps, and step_ms, CUDA events around its steps behind the warm-up. --record adds a recording of all ranks of --lengths.
The program is the one that plans of the preset assume (tools/tuned/train.py): a Llama of 1.2e9 parameters, bfloat16 with
float32 reductions, torch.optim.Adam. PyTorch 2.11."""

import argparse
import json
import os
import random
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "traces/pytorch/recorder"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "torch_collectives"))
import foreshard  # noqa: E402
import llama  # noqa: E402

SIZE = llama.SIZES["1b"]
PEAKS = ("requested_bytes.all.peak", "allocated_bytes.all.peak", "active_bytes.all.peak", "reserved_bytes.all.peak")
MEMORY_STEPS = 4


def options():
    numbers = lambda text: [int(part) for part in text.split(",")]  # noqa: E731
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--lengths", type=numbers)
    kind.add_argument("--draw", type=numbers)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--warm", type=int, default=20)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--record", action="store_true")
    parsed = parser.parse_args()
    listed = "_".join(str(n) for n in parsed.lengths or parsed.draw)
    parsed.name = f"lengths_{'draw_' if parsed.draw else ''}{listed}" + (f"_seed{parsed.seed}" if parsed.draw else "")
    return parsed


def build(device):
    with torch.device("meta"):
        model = llama.Llama(SIZE)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.layers:
        fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    model.to_empty(device=device)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.02)
    return model


def main():
    parsed = options()
    rank = int(os.environ["RANK"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    model = build(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-5)
    longest = max(parsed.lengths or parsed.draw)
    own = parsed.lengths[rank] if parsed.lengths else longest  # a script of one length has tables of that length
    head = SIZE["dim"] // SIZE["heads"]
    frequency = 1.0 / (500000.0 ** (torch.arange(0, head, 2, device=device).float() / head))
    angle = torch.outer(torch.arange(own, device=device).float(), frequency)
    tables = angle.cos(), angle.sin()
    draw = random.Random(1000 * parsed.seed + rank)
    lengths = []

    def loss_of(tokens):  # the logits go before backward
        length = tokens.shape[1]
        out = model(tokens, *(tables if own == length else [table[:length] for table in tables]))
        zeros = torch.zeros(out.shape[0] * out.shape[1], dtype=torch.long, device=device)
        return F.cross_entropy(out.flatten(0, 1).float(), zeros)

    def step():
        lengths.append(own if parsed.lengths else draw.choice(parsed.draw))
        optimizer.zero_grad()
        tokens = torch.randint(0, SIZE["vocab"], (parsed.batch, lengths[-1]), device=device)
        loss = loss_of(tokens)
        loss.backward()
        optimizer.step()
        return loss

    if parsed.record:
        with foreshard.record(parsed.out / f"{parsed.name}.rec", model, optimizer) as recording:
            for _ in range(18):
                loss = step()
                recording.step()
        del loss
        dist.barrier()
        sys.stdout.flush()
        os._exit(0)
    memory = []
    for _ in range(MEMORY_STEPS):
        torch.cuda.reset_peak_memory_stats()
        loss = step()
        memory.append({key: torch.cuda.memory_stats()[key] for key in PEAKS})
    for _ in range(parsed.warm):
        loss = step()
    del lengths[:]
    dist.barrier()
    torch.cuda.synchronize()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(parsed.steps + 1)]
    events[0].record()
    for event in events[1:]:
        loss = step()
        event.record()
    torch.cuda.synchronize()
    del loss
    mine = {"lengths": lengths, "memory_steps": memory, "retries": torch.cuda.memory_stats()["num_alloc_retries"],
            "reserved_bytes": torch.cuda.memory_stats()["reserved_bytes.all.peak"],
            "step_ms": [a.elapsed_time(b) for a, b in zip(events, events[1:], strict=False)]}  # fmt: skip
    ranks = [None] * dist.get_world_size()
    dist.all_gather_object(ranks, mine)
    if rank == 0:
        result = {"batch": parsed.batch, "gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "ranks": ranks}
        (parsed.out / f"{parsed.name}.json").write_text(json.dumps(result) + "\n")
        steps = sorted(max(times) for times in zip(*(r["step_ms"] for r in ranks), strict=True))
        print(f"{parsed.name}: median {steps[len(steps) // 2]:.2f} ms, {steps[0]:.2f} to {steps[-1]:.2f}, reserved "
              + " ".join(str(r["reserved_bytes"]) for r in ranks), flush=True)  # fmt: skip
    dist.barrier()
    os._exit(0)


if __name__ == "__main__":
    main()
