"""What NCCL does when ranks do not issue the same collectives: one rank leaves out a block in one step.

    torchrun --nproc-per-node 2 tools/record_check/skip_unit.py --out OUT --block 3 --rank 1

`foreshard plan RECORDING --skip-unit RANK=layers.BLOCK` says where that ends. Once no step has ended for --stall seconds
each rank prints what it issued, by the state that PyTorch's flight recorder has of it, and the process ends. --other is
a block that all other ranks leave out in the same step: as many collectives, of the same sizes."""

import argparse
import json
import os
import pickle
import sys
import threading
import time
from pathlib import Path

os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "4000")

import common  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard  # noqa: E402

STEPS, SKIPPED_STEP = 8, 3


class Llama(common.Llama):
    left_out = None  # a block's index, in this step

    def forward(self, tokens):
        x = self.tok_embeddings(tokens)
        for index, layer in enumerate(self.layers):
            x = x if index == self.left_out else layer(x)
        return self.output(self.norm(x))


def said(entry):
    return {"name": entry.get("profiling_name"), "seq": entry.get("collective_seq_id"),
            "sizes": [entry.get("input_sizes"), entry.get("output_sizes")],
            "dtypes": [entry.get("input_dtypes"), entry.get("output_dtypes")]}  # fmt: skip


def stalled(steps):
    """The flight recorder's last entries by state; `steps`: how many have ended."""
    recorded = pickle.loads(torch._C._distributed_c10d._dump_nccl_trace())["entries"]
    states = {}
    for entry in recorded:
        states.setdefault(entry["state"], []).append(said(entry))
    scheduled = states.get("scheduled", [])
    return {"rank": dist.get_rank(), "steps_ended": steps, "issued": len(recorded),
            "completed": states.get("completed", [])[-2:], "started": states.get("started", []),
            "scheduled_count": len(scheduled), "scheduled": scheduled[:3]}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--block", type=int, default=3)
    parser.add_argument("--rank", type=int, default=1)
    parser.add_argument("--other", type=int)
    parser.add_argument("--stall", type=float, default=12)
    parsed = parser.parse_args()
    device = common.start()
    with torch.device("meta"):
        model = Llama()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.layers:
        fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    common.materialise(model, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    left_out = parsed.block if dist.get_rank() == parsed.rank else parsed.other
    ended = [0, time.monotonic()]
    name = f"skip_{parsed.block}" + (f"_other_{parsed.other}" if parsed.other is not None else "")

    def answer(said):
        (parsed.out / f"{name}.rank{dist.get_rank()}.json").write_text(json.dumps(said, indent=1) + "\n")
        print(json.dumps(said), flush=True)

    def watch():
        while time.monotonic() - ended[1] < parsed.stall:
            time.sleep(0.2)
        answer(stalled(ended[0]))
        time.sleep(3)  # the launcher ends the others with the first
        os._exit(3)

    threading.Thread(target=watch, daemon=True).start()
    losses = []
    for i in range(STEPS):
        model.left_out = left_out if i == SKIPPED_STEP else None
        optimizer.zero_grad()
        tokens = common.batch(device)
        loss = common.loss_of(model(tokens), tokens)
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        losses.append(loss.item())
        ended[:] = i + 1, time.monotonic()
    answer({"rank": dist.get_rank(), "steps_ended": STEPS, "losses": losses})
    sys.stdout.flush()
    os._exit(0)


main()
