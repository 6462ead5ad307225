"""Parameters that fully_shard(…, shard_placement_fn=) cuts along another dimension than the first.

    torchrun --nproc-per-node 2 tools/record_check/placements.py --out OUT --setting recorded --placement largest

--placement largest: each along its largest dimension, the example of fully_shard's documentation; second: matrices along
their second. --fp32: without mixed precision; --microbatches N: all but the last without reduction."""

import argparse
import sys

import common
import torch
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Shard

PLACEMENTS = {
    "largest": lambda p: Shard(max(range(p.ndim), key=lambda dim: p.shape[dim])),
    "second": lambda p: Shard(1) if p.ndim == 2 else None,
}


def name_of(parsed):
    more = ("_fp32" if parsed.fp32 else "") + (f"_acc{parsed.microbatches}" if parsed.microbatches > 1 else "")
    return f"placements_{parsed.placement}{more}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--placement", choices=PLACEMENTS, required=True)
    parser.add_argument("--fp32", action="store_true")
    parser.add_argument("--microbatches", type=int, default=1)
    parsed = common.options(parser, name_of)
    device = common.start()
    with torch.device("meta"):
        model = common.Llama()
    options = {"shard_placement_fn": PLACEMENTS[parsed.placement]}
    if not parsed.fp32:
        options["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.layers:
        fully_shard(layer, reshard_after_forward=parsed.reshard, **options)
    fully_shard(model, **options)
    common.materialise(model, device)
    common.set_prefetch(model.layers, parsed.prefetch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    recording = lambda: common.foreshard.record(parsed.recording, model, optimizer)  # noqa: E731
    with common.session(parsed, recording) as steps:
        for _ in range(common.STEPS):
            optimizer.zero_grad()
            for microbatch in range(parsed.microbatches):
                model.set_requires_gradient_sync(microbatch + 1 == parsed.microbatches)
                tokens = common.batch(device)
                common.loss_of(model(tokens), tokens).backward()
            optimizer.step()
            steps.step()
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.flush()


main()
