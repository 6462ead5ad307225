"""What the scripts of this folder share: settings, a model, and the measurement that predictions are held against."""

import argparse
import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "traces/pytorch/recorder"))
import foreshard  # noqa: E402
from foreshard.timing import StepTimer  # noqa: E402

BATCH, LENGTH, VOCABULARY = 8, 2048, 32000
STEPS = 18  # 4 recorded or with memory statistics, 10 or 12 timed, and some over

# recorded: with the recorder; plain: the same without; the others: measured alone, to be predicted from the recording.
SETTINGS = {
    "recorded": {},
    "command": {},
    "plain": {},
    "noreshard": {"reshard": False},
    "prefetch2": {"prefetch": 2},
}
KEPT = ("allocated_bytes.all.peak", "active_bytes.all.peak", "reserved_bytes.all.peak", "requested_bytes.all.peak",
        "allocated_bytes.all.current", "reserved_bytes.all.current", "num_alloc_retries")  # fmt: skip


def options(parser=None, name=lambda _: Path(sys.argv[0]).stem):
    """`parser` has a script's own options; `name` says what its files are called."""
    parser = parser or argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--setting", choices=SETTINGS, required=True)
    parsed = parser.parse_args()
    parsed.name = name(parsed)
    parsed.recording = parsed.out / f"{parsed.name}.rec"
    parsed.reshard = SETTINGS[parsed.setting].get("reshard", True)
    parsed.prefetch = SETTINGS[parsed.setting].get("prefetch", 0)
    if parsed.setting == "recorded":
        foreshard.record_setup()
    return parsed


class Measured:
    """Peaks of the first four steps, each by itself, then the times of twelve: NAME.SETTING.json, from rank 0."""

    MEMORY_STEPS, TIMED_STEPS = 4, 12

    def __init__(self, parsed):
        self.path = parsed.out / f"{parsed.name}.{parsed.setting}.json"
        self.memory, self.timer = [], None

    def __enter__(self):
        torch.cuda.reset_peak_memory_stats()
        return self

    def __exit__(self, *unused):
        pass

    def step(self):
        if len(self.memory) < self.MEMORY_STEPS:
            statistics = torch.cuda.memory_stats()
            self.memory.append({key: statistics[key] for key in KEPT})
            torch.cuda.reset_peak_memory_stats()
            if len(self.memory) == self.MEMORY_STEPS:
                self.timer = StepTimer(self.TIMED_STEPS)
                self.timer.start()
        elif self.timer is not None and self.timer.step():
            result = {"memory_steps": self.memory, "step_ms": self.timer.step_ms()}
            result["host_issue_ms"] = self.timer.host_issue_ms
            self.timer = None
            if dist.get_rank() == 0:
                self.path.write_text(json.dumps(result, indent=1) + "\n")


def session(parsed, recording):
    """The recording, or what stands in for it: `recording` makes one."""
    if parsed.setting == "recorded":
        return recording()
    return nullcontext() if parsed.setting == "command" else Measured(parsed)


def start():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    torch.manual_seed(0)
    return device


def set_prefetch(blocks, depth):
    """Each block its next (in backward, its previous) `depth` blocks; 0 leaves FSDP2's own rule."""
    blocks = list(blocks)
    for i, block in enumerate(blocks if depth else []):
        block.set_modules_to_forward_prefetch(blocks[i + 1 : i + 1 + depth])
        block.set_modules_to_backward_prefetch(blocks[max(0, i - depth) : i][::-1])


class Block(nn.Module):
    def __init__(self, dim, ffn, heads):
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.RMSNorm(dim)
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        self.ffn_norm = nn.RMSNorm(dim)
        self.w1, self.w3 = nn.Linear(dim, ffn, bias=False), nn.Linear(dim, ffn, bias=False)
        self.w2 = nn.Linear(ffn, dim, bias=False)

    def forward(self, x):
        h = self.attention_norm(x)
        q, k, v = (w(h).unflatten(-1, (self.heads, -1)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.wo(o.transpose(1, 2).flatten(2))
        h = self.ffn_norm(x)
        return x + self.w2(F.silu(self.w1(h)) * self.w3(h))


class Llama(nn.Module):
    """A Llama-like model without rotary embeddings, of half a billion parameters."""

    def __init__(self, dim=2048, ffn=5632, heads=16, layers=8):
        super().__init__()
        self.tok_embeddings = nn.Embedding(VOCABULARY, dim)
        self.layers = nn.ModuleList([Block(dim, ffn, heads) for _ in range(layers)])
        self.norm = nn.RMSNorm(dim)
        self.output = nn.Linear(dim, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.tok_embeddings(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


def materialise(model, device):
    model.to_empty(device=device)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.02)


def batch(device):
    return torch.randint(0, VOCABULARY, (BATCH, LENGTH), device=device)


def loss_of(logits, tokens):
    return F.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten())
