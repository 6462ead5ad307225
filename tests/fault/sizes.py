#!/usr/bin/env python3
"""How much processor time and memory large recordings take: a profiler trace of 1 GiB, a snapshot of 1,000,000 allocator events.

--full: 16 GiB, and 10,000,000 events. Each is imported, and the store is explained, compared with itself and drawn.
A limit of memory (--memory GIB, default 8) is set; an import that needs more is a failure.
"""
import io
import json
import lzma
import pickle

import harness
from harness import Failure

GIB = 1 << 30
STEPS = 4
BASE = 0x7F0000000000


def shifted(event, times, by):
    """An event of the sample, of another repetition of it: later, and with numbers of its own."""
    again = dict(event)
    again["ts"] = round(event["ts"] + by, 3)
    if "args" in event:
        again["args"] = {key: value + 10**6 * times if key in ("correlation", "External id") else value
                         for key, value in event["args"].items()}
    if isinstance(event.get("id"), int):
        again["id"] += 10**6 * times
    return again


def write_trace(path, size):
    """The sample's events again and again in STEPS long steps, until the file has `size` bytes; how many events."""
    trace = json.loads(lzma.open(harness.SAMPLES / "mlp_implicit.trace.json.xz").read())
    events = [e for e in trace.pop("traceEvents") if "ts" in e or e.get("ph") == "M"]
    steps = [e for e in events if str(e.get("name", "")).startswith("ProfilerStep#")]
    timed = [e for e in events if "ts" in e and e not in steps]
    first = min(e["ts"] for e in timed)
    period = max(e["ts"] + e.get("dur", 0) for e in timed) - first + 100
    repetitions = max(STEPS, size // len(json.dumps(timed)))
    each = repetitions // STEPS
    count = len(events)
    with open(path, "w") as out:
        out.write(json.dumps(trace)[:-1] + ', "traceEvents": [\n')
        out.write(",\n".join(json.dumps(e) for e in events if e.get("ph") == "M"))
        for step in range(STEPS):
            for mark in {(e["pid"], e["tid"]): e for e in steps}.values():
                at = first + step * each * period
                mark = dict(mark, name=f"ProfilerStep#{4 + step}", ts=at, dur=each * period - 1)
                out.write(",\n" + json.dumps(mark))
        for times in range(each * STEPS):
            out.write(",\n" + ",\n".join(json.dumps(shifted(e, times, times * period)) for e in timed))
            count += len(timed)
        out.write("\n]}\n")
    return count


def fragment(value):
    """The opcodes that leave a value on a pickle's stack, without a memo: they may stand in another pickle."""
    out = io.BytesIO()
    pickler = pickle.Pickler(out, 3)
    pickler.fast = True
    pickler.dump(value)
    return out.getvalue()[2:-1]


def entry(action, offset, size, time):
    return {"action": action, "addr": BASE + offset, "size": size, "stream": 0, "time_us": time, "frames": []}


def write_snapshot(path, count):
    """A program that allocates and frees small blocks of one segment; how many entries."""
    blocks = [{"address": BASE, "size": 1024, "requested_size": 1000, "state": "active_allocated", "frames": []},
              {"address": BASE + 1024, "size": 2**21 - 1024, "requested_size": 1000, "state": "inactive", "frames": []}]
    segment = {"device": 0, "address": BASE, "total_size": 2**21, "allocated_size": 1024, "active_size": 1024,
               "requested_size": 1000, "stream": 0, "segment_type": "small", "segment_pool_id": (0, 0),
               "is_expandable": False, "frames": [], "blocks": blocks}
    written = 2
    with open(path, "wb") as out:
        out.write(b"\x80\x03}(" + fragment("segments") + fragment([segment]) + fragment("device_traces") + b"](](")
        out.write(fragment(entry("segment_alloc", 0, 2**21, 1)) + fragment(entry("alloc", 0, 1000, 2)))
        time = 3
        while written < count:
            pieces = []
            for action in ("alloc", "free_requested", "free_completed"):
                for n in range(64):
                    pieces.append(fragment(entry(action, 1024 * (n + 1), 1000, time)))
                    time += 1
            out.write(b"".join(pieces))
            written += len(pieces)
        out.write(b"eeu.")
    return written


def measured(arguments, place):
    outcome = harness.run([OPTIONS.foreshard, *arguments], place, seconds=3000, memory=int(OPTIONS.memory * GIB))
    if outcome.status != 0:
        raise Failure(f"{arguments[0]}: {outcome.status}: {harness.last_lines(outcome.err)}")
    return {f"{arguments[0]}, processor s": round(outcome.processor, 1),
            f"{arguments[0]}, peak MiB": round(outcome.rss / 2**20)}


def trace_case(place, amount):
    path = place / "t.json"
    count = write_trace(path, amount)
    out = {"trace, MiB": round(path.stat().st_size / 2**20)}
    out |= measured(["import", "--trace", path, "-o", "o.db"], place)
    path.unlink()
    out["store, MiB"] = round((place / "o.db").stat().st_size / 2**20)
    for verb in (["explain", "o.db", "--time", "--no-remedies"], ["compare", "o.db", "o.db"],
                 ["view", "o.db", "-o", "o.svg"], ["export", "o.db", "--format", "perfetto", "-o", "o.gz"]):
        out |= measured(verb, place)
    return {"events": count}, out


def steps_case(place, amount):
    """Each repetition of the sample ends with two optimizer steps: as many steps are stored."""
    path = place / "t.json"
    write_trace(path, amount)
    out = measured(["import", "--trace", path, "-o", "o.db"], place)
    steps = harness.run([OPTIONS.foreshard, "query", "o.db", "SELECT count(*) FROM step", "--json"], place)
    out |= measured(["view", "o.db", "-o", "o.html", "--no-remedies"], place)
    return {"steps": json.loads(steps.out)["rows"][0][0]}, out


def snapshot_case(place, amount):
    path = place / "s.pickle"
    count = write_snapshot(path, amount)
    out = {"snapshot, MiB": round(path.stat().st_size / 2**20)}
    out |= measured(["import", "--snapshot", path, "-o", "o.db"], place)
    out |= measured(["replay", path], place)
    path.unlink()
    out["store, MiB"] = round((place / "o.db").stat().st_size / 2**20)
    for verb in (["explain", "o.db", "--no-remedies"], ["view", "o.db", "-o", "o.html", "--no-remedies"]):
        out |= measured(verb, place)
    return {"allocator events": count}, out


def run_case(case, rng, folder):
    row, make, amount = case
    return make(folder, amount)


if __name__ == "__main__":
    OPTIONS = harness.read_options("sizes", [("--full", {"action": "store_true"}),
                                             ("--memory", {"type": float, "default": 8, "metavar": "GIB"})])
    times = OPTIONS.share * (16 if OPTIONS.full else 1)
    harness.work_folder()
    OPTIONS.jobs = 1
    harness.figure(OPTIONS, "sizes", "large recordings", [
        ("a profiler trace", trace_case, round(times * GIB)),
        ("a page of many steps", steps_case, round(OPTIONS.share * 64 * 2**20)),
        ("a snapshot", snapshot_case, round(OPTIONS.share * (10**7 if OPTIONS.full else 10**6)))], run_case, all_cases=True)
