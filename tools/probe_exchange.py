#!/usr/bin/env python3
"""What the exchanges of torchtitan's expert parallelism cost the host, timed inside a training and without a profiler:
functional collectives (torch.distributed._functional_collectives) by hand and with autograd, forward and backward.

    torchrun --nproc-per-node 2 tools/probe_exchange.py --config CONFIG [--batch N] [--steps N] --out FILE.json

CONFIG is a config.json of mixtral or qwen3_moe. The model trains as tools/record_check/hf_experts.py has it; experts are
exchanged over a group of all ranks. Written: for each part its median and quartiles in us over blocks and steps.
`expert_major` is thirteen launches of small kernels and four views in a row, which profiles have prices for: it says how
fast this host is beside theirs. One rank alone has two copies less in it, and other times in backward.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path
from time import perf_counter_ns

sys.path.insert(0, str(Path(__file__).resolve().parent / "record_check"))
import common  # noqa: E402
import expert_parallel  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

TIMES = {}


def note(name, since):
    TIMES.setdefault(name, []).append((perf_counter_ns() - since) / 1e3)


def timed(name, call):
    """`call`, each of whose times is noted."""

    def run(*arguments, **options):
        start = perf_counter_ns()
        result = call(*arguments, **options)
        note(name, start)
        return result

    return run


def backward_between(after, before, name):
    """Notes what backward takes from the gradient of `after` to that of `before`, which it depends on."""
    began = []
    after.register_hook(lambda _: began.append(perf_counter_ns()))
    before.register_hook(lambda _: note(name, began.pop()))


class Exchange:
    """all_to_all_single_autograd, its backward timed as well; the tensor that it gives waits where it is first used."""

    def __init__(self):
        self.call = expert_parallel.all_to_all_single_autograd

    def __call__(self, rows, *arguments):
        start = perf_counter_ns()
        out = self.call(rows, *arguments)
        note("all_to_all_single_autograd", start)
        backward_between(out, rows, "all_to_all_single_autograd, backward")
        start = perf_counter_ns()
        out = out.view_as(out)  # any op: an AsyncCollectiveTensor is waited for and unwrapped by the first
        note("wait by the first use", start)
        return out


def counts_exchange():
    """all_to_all_single without autograd, and wait_tensor of what it gives (the second one in `dispatched` is free)."""
    call = timed("all_to_all_single", expert_parallel.all_to_all_single)
    wait = timed("wait_tensor", torch.ops._c10d_functional.wait_tensor)
    return lambda *arguments, **options: wait(call(*arguments, **options))


def patch():
    expert_parallel.all_to_all_single = counts_exchange()
    expert_parallel.expert_major = timed("expert_major", expert_parallel.expert_major)
    expert_parallel.all_to_all_single_autograd = Exchange()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--seq", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=12, help="timed, behind four that are not")
    parser.add_argument("--out", type=Path, required=True)
    parsed = parser.parse_args()
    device = common.start()
    import hf_experts
    import hf_model

    parsed.ep, parsed.reshard, parsed.skewed = dist.get_world_size(), True, False
    model, vocabulary = hf_model.build(parsed.config)
    count = getattr(model.config, "num_experts", None) or model.config.num_local_experts
    hf_experts.shard(model, parsed, count)
    hf_model.materialise(model, device, expert_parallel.materialise)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-5)
    for step in range(parsed.steps + 4):
        if step == 4:
            patch()
        tokens = torch.randint(0, vocabulary, (parsed.batch, parsed.seq), device=device)
        optimizer.zero_grad()
        start = perf_counter_ns()
        model(input_ids=tokens, labels=tokens, use_cache=False).loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        if step >= 4:
            note("step", start)
    out = {"torch": torch.__version__, "ranks": dist.get_world_size(), "config": parsed.config.stem,
           "parts_us": {name: statistics.quantiles(values, n=4) for name, values in TIMES.items()}}  # fmt: skip
    if dist.get_rank() == 0:
        parsed.out.write_text(json.dumps(out, indent=1) + "\n", encoding="utf-8")
        for name, (low, middle, high) in out["parts_us"].items():
            print(f"{name:40} {middle:9.1f} us ({low:.1f} to {high:.1f}), {len(TIMES[name])} times")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
