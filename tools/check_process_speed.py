#!/usr/bin/env python3
"""How much of a host-bound prediction's error is the speed of the process that was recorded.

A model's prediction knows what a step calls, not how fast one process makes these calls. A recorded trace says both:
the same small call (aten::mul: one output, one launch) takes each process its own time. For every run of DIR/runs whose
step the host sets, this prints that time (geometric mean of the medians of the two busiest threads, Python's
and autograd's, under the profiler), measured over predicted step, and the prediction's error before and after it is scaled
by the process' speed. The speed that stands for factor 1 comes from the runs of the other families alone.

    foreshard accuracy DIR --no-published --csv rows.csv; tools/check_process_speed.py rows.csv DIR
"""
import argparse
import collections
import csv
import json
import lzma
import math
import statistics

CALL = "aten::mul"
KIND = "run_from_model"


def speed(path):
    """us of CALL; None where a thread makes fewer than 20 of them."""
    with lzma.open(path) as file:
        events = json.load(file)["traceEvents"]
    threads = collections.defaultdict(list)
    for event in events:
        if event.get("cat") == "cpu_op" and event.get("name") == CALL:
            threads[event["tid"]].append(event["dur"])
    busiest = sorted(threads.values(), key=len)[-2:]
    if len(busiest) < 2 or len(busiest[0]) < 20:
        return None
    return math.sqrt(statistics.median(busiest[0]) * statistics.median(busiest[1]))


def family(name):
    return name.split("_")[0]


def centre(values):
    return math.exp(statistics.mean(math.log(v) for v in values))


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("rows")
    arguments.add_argument("folder")
    options = arguments.parse_args()
    rows = []
    with open(options.rows) as file:
        for row in csv.DictReader(file):
            if row["kind"] != KIND or row["host_bound"] != "true":
                continue
            us = speed(f"{options.folder}/runs/{row['name']}.trace.json.xz")
            if us is not None:
                rows.append((row["name"], us, float(row["measured"]), float(row["predicted"])))
    print(f"| run | {CALL}, us | measured / predicted | error | error at the process' speed |\n|---|---|---|---|---|")
    before, after = [], []
    for name, us, measured, predicted in rows:
        others = [o[1] / (o[2] / o[3]) for o in rows if family(o[0]) != family(name)]
        scaled = predicted * us / centre(others) if others else float("nan")
        before.append(abs(predicted / measured - 1))
        after.append(abs(scaled / measured - 1))
        print(f"| `{name}` | {us:.1f} | {measured / predicted:.2f} | {100 * (predicted / measured - 1):+.1f} % | "
              f"{100 * (scaled / measured - 1):+.1f} % |")
    if rows:
        print(f"\nmean {100 * statistics.mean(before):.1f} %, worst {100 * max(before):.1f} %; at the process' speed "
              f"mean {100 * statistics.mean(after):.1f} %, worst {100 * max(after):.1f} %")


if __name__ == "__main__":
    main()
