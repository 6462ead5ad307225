#!/usr/bin/env python3
"""Holds a profile's /host/calls against recorded runs, group by group.

For each run of DIR/runs the program that `foreshard plan MODEL` generates is compared with the recorded one: host
time a step in forward, in backward, in each hook and in each of FSDP's sections. Recorded times are those under the
profiler times the run's own factor (`plan --json`, calibration.host_scale), so each run's groups add up to what its
host took without a profiler. Printed: recorded over generated for each run, and for each group the geometric mean,
every model counted once however many runs it has. 1 would mean that the profile splits host time as the runs do.

    tools/check_host_calls.py build/release/foreshard DIR [DIR ...]
"""
import argparse
import glob
import json
import math
import os
import sqlite3
import subprocess
import sys
import tempfile

PRESETS = {"llama-tiny", "llama-1b", "llama-3b", "llama-8b"}
HOOKS = {"backward_end": "backward_final", "microbatch_begin": "step_begin", "forward_begin": "step_begin",
         "optimizer_begin": "step_begin"}
# What a run must not differ in for its program to be the preset's; resharding off removes gathers from a recording.
PLAIN = {"checkpoint": "none", "offload": False, "accumulate": 1, "optimizer": "adam"}


def program(store):
    return json.loads(sqlite3.connect(store).execute("select json from workload").fetchone()[0])


def host_of(op):
    """host_ns of an op of docs/workload.md's list form."""
    place = {"alloc": 4, "free": 2, "kernel": 3, "copy": 4, "hook": 3, "synchronize": 1}[op[0]]
    if len(op) > place and not isinstance(op[place], dict):
        return op[place] or 0
    return op[-1].get("host_ns", 0) if isinstance(op[-1], dict) else 0


def groups(workload):
    out, part = {}, "step_begin"

    def add(key, value):
        out[key] = out.get(key, 0) + value

    for op in workload["steps"][-1]:
        if op[0] == "hook":
            add(HOOKS.get(op[1], op[1]), host_of(op))
            part = {"forward_begin": "forward", "backward_begin": "backward", "optimizer_begin": "rest"}.get(op[1], part)
        else:
            add(part, host_of(op))
    for section in workload["sections"]:
        host = section.get("host_after_ns", 0) + sum((item[1] if len(item) > 1 else 0) or 0 for item in section["items"])
        add(section["section"], host)
    return out


def source_of(config, base, folder):
    """The words for `plan`: a preset, or the config.json that the recorder wrote into the about file."""
    model = config["model"]
    if model in PRESETS:
        return [model]
    if model == "mlp":
        return [model, "--dim", str(config["dim"]), "--layers", str(config["layers"])]
    with open(base + ".about.json", encoding="utf-8") as file:
        about = json.load(file)
    if "model_config" not in about:
        return None
    path = os.path.join(folder, model + ".json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(about["model_config"], file)
    return [path]


def options(settings):
    out = []
    for key in ("batch", "seq", "gpus", "replicate", "param_dtype", "reduce_dtype", "units_per_group"):
        if settings[key] is not None:
            out += ["--" + key.replace("_", "-"), str(settings[key])]
    return out


def compare(foreshard, base, folder):
    with open(base + ".json", encoding="utf-8") as file:
        run = json.load(file)
    source = source_of(run["config"], base, folder)
    trace = base + ".trace.json.xz"
    if source is None or not os.path.exists(trace):
        return None
    recorded, generated = os.path.join(folder, "recorded.db"), os.path.join(folder, "generated.db")
    subprocess.run([foreshard, "import", "--snapshot", base + ".pickle.xz", "--trace", trace, "--about",
                    base + ".about.json", "-o", recorded, "--force"], check=True, capture_output=True)
    plan = json.loads(subprocess.run([foreshard, "plan", recorded, "--json"], check=True, capture_output=True).stdout)
    settings = plan["settings"]
    if any(settings[key] != value for key, value in PLAIN.items()) or settings["reshard_after_forward"] is not True:
        return None
    subprocess.run([foreshard, "plan"] + source + ["-o", generated, "--force"] + options(settings), check=True,
                   capture_output=True)
    factor = plan["calibration"]["host_scale"]
    old, new = groups(program(recorded)), groups(program(generated))
    ratios = {key: factor * old.get(key, 0) / value for key, value in new.items() if value > 1e5 and old.get(key, 0) > 0}
    return run["config"]["model"], factor, sum(new.values()) / 1e6, ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("foreshard")
    parser.add_argument("dir", nargs="+")
    arguments = parser.parse_args()
    by_model = {}
    with tempfile.TemporaryDirectory() as folder:
        for directory in arguments.dir:
            for path in sorted(glob.glob(os.path.join(directory, "runs", "*.about.json"))):
                base = path[: -len(".about.json")]
                found = compare(arguments.foreshard, base, folder)
                if found is None:
                    continue
                model, factor, total, ratios = found
                by_model.setdefault(model, []).append(ratios)
                print(f"{os.path.basename(base):20s} factor {factor:.2f} generated {total:6.1f} ms ",
                      " ".join(f"{key} {value:.2f}" for key, value in sorted(ratios.items())))
    if not by_model:
        sys.exit("no run of a known model")
    for key in sorted({key for runs in by_model.values() for ratios in runs for key in ratios}):
        means = {}
        for model, runs in by_model.items():
            logs = [math.log(ratios[key]) for ratios in runs if key in ratios]
            if logs:
                means[model] = sum(logs) / len(logs)
        print(f"{key:18s} {math.exp(sum(means.values()) / len(means)):.2f}  ",
              " ".join(f"{model} {math.exp(value):.2f}" for model, value in means.items()))


if __name__ == "__main__":
    main()
