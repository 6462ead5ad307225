"""Trains a Llama or a Hugging Face model as printed lines of Python say (`foreshard tune`, `sweep`), and measures it.

torchrun --nproc-per-node 4 train.py --model 1b|3b|8b|CONFIG.json --batch 2 --seq 2048 --lines LINES.py --out OUT.json

LINES.py holds what stands behind «in PyTorch:», or `pytorch.lines` of `tune --json`. The program is the one that plans
of models assume: parameters made on the device after fully_shard, torch.optim.Adam, random tokens. Step times are CUDA
events around whole steps of the slowest rank; memory is that of the first --steps steps, which plans predict."""

import argparse
import json
import os
import statistics
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "torch_collectives"))
import llama  # noqa: E402


def hugging_face(path):
    from accelerate import init_empty_weights
    from transformers import AutoConfig, AutoModelForCausalLM

    config = json.loads(Path(path).read_text())
    kind = config.pop("model_type")
    with init_empty_weights(include_buffers=False):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **config), attn_implementation="sdpa")
    model.config.use_cache = False
    return model


class Program:
    """A model on the meta device, and the loss of one batch."""

    def __init__(self, options):
        self.options = options
        self.size = llama.SIZES.get(options.model)
        if self.size:
            with torch.device("meta"):
                self.model = llama.Llama(self.size)
        else:
            self.model = hugging_face(options.model)

    def materialize(self, device):
        buffers = {} if self.size else {name: buffer.detach().clone() for name, buffer in self.model.named_buffers()}
        self.model.to_empty(device=device)
        for name, buffer in self.model.named_buffers():
            if name in buffers:
                buffer.copy_(buffers[name])
        for parameter in self.model.parameters():
            nn.init.normal_(parameter, std=0.02)

    def prepare(self, device):
        self.device = device
        if self.size:
            head = self.size["dim"] // self.size["heads"]
            frequency = 1.0 / (500000.0 ** (torch.arange(0, head, 2, device=device).float() / head))
            angle = torch.outer(torch.arange(self.options.seq, device=device).float(), frequency)
            self.angles = angle.cos(), angle.sin()
            self.kept = frequency, angle  # a script has them as locals: plans count them

    def batch(self):
        vocabulary = self.size["vocab"] if self.size else self.model.config.vocab_size
        return torch.randint(0, vocabulary, (self.options.batch, self.options.seq), device=self.device)

    def loss(self, tokens):
        if not self.size:
            return self.model(input_ids=tokens, labels=tokens, use_cache=False).loss
        out = self.model(tokens, *self.angles)
        zeros = torch.zeros(out.shape[0] * out.shape[1], dtype=torch.long, device=self.device)
        return F.cross_entropy(out.flatten(0, 1).float(), zeros)


def measured(step, count):
    """Milliseconds of each step, the slowest rank's."""
    dist.barrier()
    torch.cuda.synchronize()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    events[0].record()
    for event in events[1:]:
        step()
        event.record()
    torch.cuda.synchronize()
    times = torch.tensor([a.elapsed_time(b) for a, b in zip(events, events[1:], strict=False)], device="cuda")
    dist.all_reduce(times, dist.ReduceOp.MAX)
    return times.tolist()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seq", type=int, default=2048)
    parser.add_argument("--lines", required=True)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--timed", type=int, default=20)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()

    lines = Path(options.lines).read_text()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    program = Program(options)
    names = {"torch": torch, "model": program.model}
    if "init_process_group" not in lines:
        dist.init_process_group("nccl", device_id=device)
    exec(lines, names)
    dist.barrier()
    torch.cuda.synchronize()
    program.materialize(device)
    optimizer = torch.optim.Adam(program.model.parameters(), lr=1e-5)
    program.prepare(device)
    torch.manual_seed(dist.get_rank())

    def step():
        optimizer.zero_grad()
        tokens = program.batch()
        loss = program.loss(tokens)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(options.steps):
        torch.cuda.reset_peak_memory_stats()
        step()
    torch.cuda.synchronize()
    memory = torch.cuda.memory_stats()
    times = measured(step, options.timed)[2:]
    result = {
        "model": options.model, "lines": options.lines, "gpus": dist.get_world_size(), "torch": torch.__version__,
        "gpu": torch.cuda.get_device_name(), "nccl": torch.cuda.nccl.version(), "step_ms": statistics.median(times),
        "step_ms_least": min(times), "step_ms_most": max(times),
        "peak_allocated_bytes": memory["allocated_bytes.all.peak"],
        "peak_reserved_bytes": memory["reserved_bytes.all.peak"],
    }  # fmt: skip
    if dist.get_rank() == 0:
        Path(options.out).write_text(json.dumps(result))
        print(f"{options.model} {options.lines}: {result['step_ms']:.2f} ms ({min(times):.2f} to {max(times):.2f}), "
              f"allocated {result['peak_allocated_bytes']}, reserved {result['peak_reserved_bytes']} bytes",
              flush=True)  # fmt: skip
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)  # a symmetric pool cannot be destroyed after its communicator


main()
