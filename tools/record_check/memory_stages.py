"""Requested and active memory of PyTorch's test Transformer on two GPUs, after each stage that its test
TestFullyShardMemory.test_fully_shard_training_memory looks at (test/distributed/_composable/fsdp/
test_fully_shard_memory.py, 2.11).

    torchrun --nproc-per-node 2 tools/record_check/memory_stages.py --out OUT

For each setting of that test, with its head tied to the embedding (as `foreshard plan torch-transformer` has it) and not:
requested and active bytes, peak and current, less what was there before the model. Written to OUT/memory_stages.json.
Active bytes depend on what the process had allocated before: a block whose rest is not split off counts whole.
"""

import argparse
import gc
import json
import sys
import types
import unittest
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.fsdp import CPUOffloadPolicy, OffloadPolicy, fully_shard

# torch.testing._internal wants the package of PyTorch's tests; the model does not.
sys.modules.setdefault("expecttest", types.SimpleNamespace(TestCase=unittest.TestCase))
from torch.testing._internal.distributed._tensor.common_dtensor import (  # noqa: E402
    ModelArgs,
    Transformer,
    TransformerBlock,
)

LAYERS, DIM, HEADS, VOCABULARY, TOKENS = 3, 768, 12, 32, 4


def bytes_of(what):
    """[requested, active], peak or current."""
    statistics = torch.cuda.memory_stats()
    return [statistics[f"{kind}_bytes.all.{what}"] for kind in ("requested", "active")]


def stages(reshard, offload, tied):
    """The test's own order: model, forward, backward, optimizer, zero_grad; peaks since the last reset."""
    gc.collect()  # the model before
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    base, out = bytes_of("current"), {}

    def note(stage):
        torch.cuda.synchronize()
        out[stage] = {what: [now - then for now, then in zip(bytes_of(what), base)] for what in ("peak", "current")}

    torch.manual_seed(42)
    model = Transformer(ModelArgs(vocab_size=VOCABULARY, n_layers=LAYERS, dim=DIM, n_heads=HEADS, weight_tying=tied))
    policy = CPUOffloadPolicy() if offload else OffloadPolicy()
    for module in model.modules():
        if isinstance(module, TransformerBlock):
            fully_shard(module, reshard_after_forward=reshard, offload_policy=policy)
    fully_shard(model, reshard_after_forward=reshard, offload_policy=policy)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, foreach=False)
    note("model")
    tokens = torch.randint(0, VOCABULARY, (1, TOKENS), device="cuda")
    loss = model(tokens)
    note("forward")
    loss.sum().backward()
    note("backward")
    del loss
    torch.cuda.reset_peak_memory_stats()
    optimizer.step()
    note("optimizer")
    optimizer.zero_grad()
    torch.cuda.reset_peak_memory_stats()
    note("zero_grad")
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    linear = torch.nn.Linear(DIM, DIM, device="cuda")  # allocates cuBLAS's workspaces before anything is counted
    linear(torch.randn(1, DIM, device="cuda")).sum().backward()
    del linear
    results = {}
    for tied in (True, False):
        for reshard, offload in ((True, False), (False, False), (True, True)):
            name = f"{'tied' if tied else 'untied'}, reshard {reshard}, offload {offload}"
            results[name] = stages(reshard, offload, tied)
    if dist.get_rank() == 0:
        out.mkdir(parents=True, exist_ok=True)
        text = {"torch": torch.__version__, "nccl": ".".join(map(str, torch.cuda.nccl.version())), "stages": results}
        (out / "memory_stages.json").write_text(json.dumps(text, indent=1) + "\n", encoding="utf-8")
        print(json.dumps(results, indent=1))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
