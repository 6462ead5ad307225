#!/usr/bin/env python3
"""What GEMMs and attention lose beside NCCL's rings that wait for other ranks, and beside rings that move.

A ring's kernel holds its SMs from its start, and moves nothing until its last rank has started. In a trace of one rank
the least time of its kind and size stands for what it takes once all are there: for the last `least` of its time it
moves, and until 1.3 times that before its end it waits. A kernel is held against itself: the same name and grid at the
same place behind the last attention kernel, which with eager layers is the same product of another layer, beside no
ring at all.

    tools/ring_waits.py DIR

For every trace in DIR/runs with kernels beside waiting rings: the profiled steps' kernels that lie within such a wait,
how much longer than alone these and those within a move take, and both of kernels that the trace has all three ways.
"""
import argparse
import collections
import json
import lzma
import pathlib
import re
import statistics

ATTENTION = re.compile("sdpa|fmha|flash")
PRODUCT = re.compile("nvjet|gemm|cutlass|xmma")
RING = re.compile("ncclDevKernel_(AllGather|ReduceScatter|AllReduce)")
MOVES_WITHIN = 1.3  # of the least time: NCCL's own spread and what kernels delay it by
INSIDE = 0.98  # of a kernel's time


def kernels_of(path):
    with lzma.open(path) as file:
        events = json.load(file)["traceEvents"]
    return sorted((e for e in events if e.get("cat") == "kernel"), key=lambda e: e["ts"])


def rings_of(kernels):
    """Start, latest begin of moving, earliest begin of moving, end; of every ring."""
    found, least = [], {}
    for kernel in kernels:
        name = RING.search(kernel["name"])
        if not name:
            continue
        about = kernel["args"]
        kind = name[1], about.get("In msg nelems"), about.get("dtype"), about.get("Process Group Name")
        least[kind] = min(least.get(kind, kernel["dur"]), kernel["dur"])
        found.append((kernel["ts"], kernel["ts"] + kernel["dur"], kind))
    return [(start, end - least[kind], end - MOVES_WITHIN * least[kind], end) for start, end, kind in found]


def beside(kernel, rings):
    start, end = kernel["ts"], kernel["ts"] + kernel["dur"]
    waits = moves = any_ring = 0
    for first, moves_from, waits_until, last in rings:
        if last <= start or first >= end:
            continue
        any_ring += min(end, last) - max(start, first)
        waits += max(0, min(end, waits_until) - max(start, first))
        moves += max(0, min(end, last) - max(start, first, moves_from))
    least = INSIDE * kernel["dur"]
    if any_ring == 0:
        return "alone"
    return "waiting" if waits >= least else "moving" if moves >= least else "either"


def times_of(path):
    """{a kernel's name, grid and place: {"alone", "waiting", "moving", "either": times in us}}"""
    kernels = kernels_of(path)
    rings = rings_of(kernels)
    own = [k for k in kernels if PRODUCT.search(k["name"]) or ATTENTION.search(k["name"])]
    streams = collections.Counter(k["args"]["stream"] for k in own)
    out = collections.defaultdict(lambda: collections.defaultdict(list))
    attention, place = "", 0
    for kernel in own:
        if kernel["args"]["stream"] != streams.most_common(1)[0][0]:
            continue
        place += 1
        if ATTENTION.search(kernel["name"]):
            attention, place = kernel["name"], 0
        key = kernel["name"], tuple(kernel["args"]["grid"]), attention, place
        out[key][beside(kernel, rings)].append(kernel["dur"])
    return out


def longer(pairs):
    """Of (time, time alone): all times over all times alone."""
    return sum(time for time, _ in pairs) / sum(alone for _, alone in pairs) if pairs else float("nan")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=pathlib.Path, help="holds runs/*.trace.json.xz")
    total = collections.defaultdict(list)
    print(f"{'':28}{'waiting':>9}{'':>8}{'moving':>9}{'':>8}   {'of both: waiting':>16}{'moving':>9}")
    for path in sorted((parser.parse_args().dir / "runs").glob("*.trace.json.xz")):
        rows = collections.defaultdict(list)
        for ways in times_of(path).values():
            if len(ways["alone"]) < 2:
                continue
            alone = statistics.median(ways["alone"])
            for way in ("waiting", "moving"):
                rows[way] += [(time, alone) for time in ways[way]]
            if ways["waiting"] and ways["moving"]:
                for way in ("waiting", "moving"):
                    rows[f"both {way}"].append((statistics.median(ways[way]), alone))
        if not rows["waiting"]:
            continue
        for way, pairs in rows.items():
            total[way] += pairs
        print_row(path.name.removesuffix(".trace.json.xz"), rows)
    print_row("all", total)


def print_row(name, rows):
    columns = [f"{longer(rows[way]):9.2f} ({len(rows[way]):5})" for way in ("waiting", "moving")]
    both = [f"{longer(rows[f'both {way}']):9.2f}" for way in ("waiting", "moving")]
    print(f"{name:28}{''.join(columns)}   {len(rows['both waiting']):7}{both[0]}{both[1]}", flush=True)


if __name__ == "__main__":
    main()
