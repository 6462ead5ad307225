#!/usr/bin/env python3
"""Several processes write one path, others read it meanwhile.

Without --force one of them writes it and all others are refused; with --force each succeeds, and what stands there in
the end is the whole output of one of them. Who reads finds nothing, or a whole store.
"""
import json
import subprocess
import time

import harness
from harness import Failure

ROUNDS = 120
WRITERS, READERS = 5, 2
QUESTION = "SELECT (SELECT count(*) FROM device_op), (SELECT total(ts) FROM device_op), (SELECT count(*) FROM event)"
WAYS = {
    "a store": (lambda n: ["plan", "mlp", "--dim", "64", "--layers", "2", "--batch", str(n + 1), "-o", "o"], "o"),
    "a page": (lambda n: ["view", PLANS[n], "-o", "o.html"], "o.html"),
    "a trace": (lambda n: ["export", PLANS[n], "--format", "chrome", "-o", "o.gz"], "o.gz"),
}


def read_meanwhile(place, name):
    """What a reader finds: nothing, or one of the whole outputs."""
    if name == "o":
        outcome = harness.run([OPTIONS.foreshard, "query", name, QUESTION, "--json"], place)
        if outcome.status == 0:
            if json.loads(outcome.out)["rows"] not in ANSWERS:
                raise Failure(f"a reader found another store: {outcome.out[:300]!r}")
            return
        harness.refused(outcome, codes={3}, says=[name])
        if "cannot be opened: No such file" not in outcome.err:
            raise Failure(f"a reader was told: {harness.last_lines(outcome.err)}")
        return
    data = harness.contents(place / name)
    if data is not None and data not in WHOLE[name]:
        raise Failure(f"a reader found {len(data)} bytes that are no whole output")


def run_case(case, rng, folder):
    row, way, force, _ = case
    arguments, name = WAYS[way]
    place = folder / "place"
    place.mkdir()
    begun = time.monotonic()
    processes = [harness.start([OPTIONS.foreshard, *arguments(n), *(["--force"] if force else [])], place,
                               stdout=subprocess.DEVNULL) for n in range(WRITERS)]
    while any(harness.running(each.pid) for each in processes):
        for _ in range(READERS):
            read_meanwhile(place, name)
    outcomes = [harness.outcome_of(each, begun, 60) for each in processes]
    for each in outcomes:
        if each.status != 0:
            harness.refused(each, codes=set() if force else {2}, says=[name])
    won = [n for n, each in enumerate(outcomes) if each.status == 0]
    data = harness.contents(place / name)
    if force and len(won) != WRITERS:
        raise Failure(f"with --force {len(won)} of {WRITERS} succeeded")
    if not force and (len(won) != 1 or data != WHOLE[name][won[0]]):
        raise Failure(f"{len(won)} of {WRITERS} say that they wrote it; it is that of {won}: "
                      f"{[data == each for each in WHOLE[name]]}")
    if data not in WHOLE[name]:
        raise Failure("what stands there is no whole output")
    if harness.names(place) != {name}:
        raise Failure(f"left behind: {harness.names(place)}")
    return "all whole, the last one stays" if force else "one wrote it, the others were refused"


def prepare(root):
    for n in range(WRITERS):
        place = root / f"alone-{n}"
        place.mkdir()
        for way in ("a store", "a page", "a trace"):
            arguments, name = WAYS[way]
            outcome = harness.run([OPTIONS.foreshard, *arguments(n)], place)
            if outcome.status != 0:
                raise SystemExit(outcome.err)
            if way == "a store":
                PLANS.append(place / "o")
            WHOLE.setdefault(name, []).append((place / name).read_bytes())
        answer = harness.run([OPTIONS.foreshard, "query", "o", QUESTION, "--json"], place).out
        ANSWERS.append(json.loads(answer)["rows"])


if __name__ == "__main__":
    OPTIONS = harness.read_options("writers")
    PLANS, WHOLE, ANSWERS = [], {}, []
    root = harness.work_folder()
    prepare(root)
    cases = [(f"{way}{', --force' if force else ''}", way, force, n)
             for n in range(ROUNDS // 3) for way in WAYS for force in (False, True)]
    harness.figure(OPTIONS, "writers", f"{WRITERS} writers of one path, readers meanwhile", cases, run_case)
