"""python -m foreshard.record [options] train.py ARGS: runs a training script as it is and records its steps.

With torchrun: torchrun --nproc-per-node 8 -m foreshard.record train.py ARGS. FSDP2's root modules are found among all
objects; a step ends with the optimizer's. The script's exit status is passed on.
"""

from __future__ import annotations

import argparse
import contextlib
import runpy
import sys
from pathlib import Path

from .by_optimizer import RecordingByOptimizer
from .history import start_history


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m foreshard.record", description="Runs a training script and records its FSDP2 steps."
    )
    parser.add_argument("-o", "--out", default="rec", help="folder of the recording (default: rec)")
    parser.add_argument("--steps", type=int, default=4, help="recorded steps (default: 4)")
    parser.add_argument("--profile", type=int, default=2, help="how many of them, the last, are profiled (default: 2)")
    parser.add_argument("--measure", type=int, default=10, help="steps timed afterwards (default: 10)")
    parser.add_argument("--after", type=int, default=0, help="steps that go by first; memory is recorded all the same")
    parser.add_argument("--stacks", default="python", choices=["python", "all"], help="frames of allocations")
    parser.add_argument("--max-entries", type=int, default=1_000_000, help="longest memory history")
    parser.add_argument("--fake", action="store_true", help="no GPU: write OUT/fake.workload.json (docs/record.md)")
    parser.add_argument("--world-size", type=int, default=8, help="with --fake: GPUs (default: 8)")
    parser.add_argument("--gpus-per-node", type=int, default=8, help="with --fake: of a node (default: 8)")
    parser.add_argument("-m", "--module", action="store_true", help="the script is the name of a module")
    parser.add_argument("script", help="the training script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    options = _parse(sys.argv[1:] if arguments is None else arguments)
    if options.fake:
        _record_fake(options)
        return
    start_history(options.stacks, options.max_entries)
    recording = RecordingByOptimizer(
        options.out,
        steps=options.steps,
        profile=options.profile,
        measure=options.measure,
        after=options.after,
        stacks=options.stacks,
        max_entries=options.max_entries,
    )
    with recording:
        _run(options)


def _record_fake(options: argparse.Namespace) -> None:
    """The script goes as far as the last recorded step."""
    from .fake import FakeRecording, Finished

    recording = FakeRecording(
        Path(options.out) / "fake.workload.json",
        world_size=options.world_size,
        gpus_per_node=options.gpus_per_node,
        stop=True,
    )
    with contextlib.suppress(Finished), recording:
        _run(options)


def _run(options: argparse.Namespace) -> None:
    sys.argv = [options.script, *options.arguments]
    if options.module:
        runpy.run_module(options.script, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(options.script).resolve().parent)
        runpy.run_path(options.script, run_name="__main__")


if __name__ == "__main__":
    main()
