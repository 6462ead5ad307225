"""Memory of a process whose all-gathers mark their buffers with Tensor.record_stream, step by step.

    torchrun --nproc-per-node 2 tools/record_check/record_stream.py --out OUT --name mlp --rows 8192
    torchrun --nproc-per-node 2 tools/record_check/record_stream.py --out OUT --name mlp --rows 8192 --record
    torchrun --nproc-per-node 2 tools/record_check/record_stream.py --out OUT --name mlp --rows 8192 --record --stash

Rank 0 writes OUT/NAME.json: of each of --steps (80) steps reserved_bytes when its last call was issued, step_ms (CUDA
events behind each step's last kernel), host_ms (what the host took to issue it) and num_alloc_retries; the host waits
for the GPU behind the first step alone. --record writes a recording, OUT/NAME.rec, instead; --stash leaves the
all-gathers to FSDP2, which keeps references until its event (PyTorch 2.8 and later). The collective is one of its own
stream, as c10d's were before PyTorch 2.8: set_custom_all_gather. --memory-limit: GiB,
torch.cuda.set_per_process_memory_fraction. One rank gathers nothing, so two and more are needed. The program is an MLP
of --layers (4) blocks of two --dim (8192) x --dim matrices and --rows rows, or with --seq a Llama of --layers blocks
whose width is --dim and --rows samples. bfloat16 with float32 reductions, torch.optim.Adam. PyTorch 2.11."""

import argparse
import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.fsdp._fully_shard._fsdp_api import AllGather

sys.path.insert(0, str(Path(__file__).resolve().parent))
import common  # noqa: E402
import foreshard  # noqa: E402

GIB = 1 << 30


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--stash", action="store_true")
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--dim", type=int, default=8192)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--rows", type=int, default=8192)
    parser.add_argument("--seq", type=int)
    parser.add_argument("--prefetch", type=int, default=0)
    parser.add_argument("--memory-limit", type=float)
    return parser.parse_args()


class RecordStreamAllGather(AllGather):
    def __init__(self):
        self.stream = torch.cuda.Stream()

    def allocate(self, size, *, dtype, device):
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor, input_tensor, group, async_op=False):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            dist.all_gather_into_tensor(output_tensor, input_tensor, group=group)
        for tensor in (output_tensor, input_tensor):
            tensor.record_stream(self.stream)
        torch.cuda.current_stream().wait_stream(self.stream)


class Pair(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        return x + self.fc2(F.gelu(self.fc1(x)))


class Mlp(nn.Module):
    def __init__(self, dim, layers):
        super().__init__()
        self.layers = nn.ModuleList([Pair(dim) for _ in range(layers)])
        self.norm = nn.RMSNorm(dim)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


def build(parsed, device):
    with torch.device("meta"):
        model = (
            common.Llama(parsed.dim, parsed.dim * 11 // 4, parsed.dim // 128, parsed.layers)
            if parsed.seq
            else Mlp(parsed.dim, parsed.layers)
        )
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    modules = [*model.layers, model]
    for module in modules:
        fully_shard(module, mp_policy=policy)
    common.materialise(model, device)
    common.set_prefetch(model.layers, parsed.prefetch)
    collective = RecordStreamAllGather()
    for module in modules if not parsed.stash else ():
        module.set_custom_all_gather(collective)
    return model


def main():
    parsed = options()
    if parsed.record:
        foreshard.record_setup()
    device = common.start()
    if parsed.memory_limit:
        total = torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction(parsed.memory_limit * GIB / total)
    model = build(parsed, device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-5)

    def step():
        optimizer.zero_grad()
        if parsed.seq:
            tokens = torch.randint(0, common.VOCABULARY, (parsed.rows, parsed.seq), device=device)
            loss = common.loss_of(model(tokens), tokens)
        else:
            loss = model(torch.randn(parsed.rows, parsed.dim, device=device)).float().square().mean()
        loss.backward()
        optimizer.step()

    if parsed.record:
        with foreshard.record(parsed.out / f"{parsed.name}.rec", model, optimizer) as recording:
            for _ in range(common.STEPS):
                step()
                recording.step()
        dist.barrier()
        sys.stdout.flush()
        os._exit(0)
    events = [torch.cuda.Event(enable_timing=True)]
    rows, retries, failed = [], 0, None
    events[0].record()
    for i in range(parsed.steps):
        begin = time.perf_counter_ns()
        try:
            step()
        except torch.OutOfMemoryError as error:
            failed = {"step": i, "error": str(error)[:300]}
            break
        host = (time.perf_counter_ns() - begin) / 1e6
        events.append(torch.cuda.Event(enable_timing=True))
        events[-1].record()
        now = torch.cuda.memory_stats()
        rows.append({"host_ms": round(host, 4), "reserved_bytes": now["reserved_bytes.all.peak"],
                     "active_bytes": now["active_bytes.all.current"],
                     "num_alloc_retries": now["num_alloc_retries"] - retries})  # fmt: skip
        retries = now["num_alloc_retries"]
        if i == 0:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    for row, a, b in zip(rows, events, events[1:], strict=False):
        row["step_ms"] = round(a.elapsed_time(b), 4)
    result = {"options": {k: str(v) for k, v in vars(parsed).items()}, "gpu": torch.cuda.get_device_name(),
              "torch": torch.__version__, "world": dist.get_world_size(), "out_of_memory": failed, "steps": rows}  # fmt: skip
    if dist.get_rank() == 0:
        (parsed.out / f"{parsed.name}.json").write_text(json.dumps(result, indent=1) + "\n")
        middle = sorted(row["step_ms"] for row in rows[len(rows) // 2 :])[len(rows) // 4]
        reserved = [round(row["reserved_bytes"] / GIB, 2) for row in rows]
        print(f"{parsed.name}: {middle:.2f} ms, retries {retries}, {failed}, reserved {reserved}", flush=True)
    dist.barrier()
    os._exit(0)


if __name__ == "__main__":
    main()
