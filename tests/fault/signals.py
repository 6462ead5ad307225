#!/usr/bin/env python3
"""SIGINT, SIGTERM and SIGHUP to every command: before each of its writing calls, and at random times.

It ends as docs/exit_codes.md says (a search or a sweep with the best so far), within a second, with nothing left behind
and no program that it started still running; or it had ended before, with its whole output.
"""
import ctypes
import os
import signal
import subprocess
import time

import harness
import works
from harness import Failure

RANDOM_TIMES = 30  # of each command
STATUS = {"int": 130, "term": -signal.SIGTERM, "hup": -signal.SIGHUP}
NUMBER = {"int": signal.SIGINT, "term": signal.SIGTERM, "hup": signal.SIGHUP}
PR_SET_CHILD_SUBREAPER = 36
ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"


def long_works(made):
    """Commands that would go on for longer than anybody waits here: they are always interrupted."""
    many = ["sweep", "llama-8b", "--gpus", "8", "--batch", "1..64", "--forward-prefetch", "implicit,1..4"]
    return works.runnable([
        works.Work("sweep of many points", [*many, "--csv", "o.csv", "-o", "o.db"], "o.csv", False, []),
        works.Work("a search", ["tune", "llama-1b", "--gpus", "8", "--batch", "1", "--allow", "cuda-graph", "-o", "o.db"],
                   "o.db", False, []),
        works.Work("a question without end", ["query", made["run.db"], ENDLESS], "o.none", False, []),
        works.Work("a picture of every op", ["export", made["run.db"], "--format", "svg-graph", "--collapse", "none",
                                             "-o", "o.svg"], "o.svg", False, []),
        works.Work("a wide picture", ["view", made["run.db"], "-o", "o.png", "--width", "8000"], "o.png", False, []),
        works.Work("serve", ["serve", made["run.db"], "--port", "0"], "o.none", False, []),
    ])


def orphans():
    """How many programs that a command had started still run half a second after it."""
    deadline = time.monotonic() + 0.5
    while time.monotonic() < deadline:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.01)
        except ChildProcessError:
            return 0
    children = open(f"/proc/self/task/{os.getpid()}/children").read().split()
    for child in children:
        os.kill(int(child), signal.SIGKILL)
    return len(children)


def judge(work, name, status, err, place, former, whole, before):
    serves = work.name == "serve"
    expected = 0 if serves and name in ("int", "term") else STATUS[name]
    early = status == -NUMBER[name]  # its handlers were not there yet: the same to a shell
    if status == 3 and ("did not succeed" in err):
        kind = "the program it started was interrupted"
    elif status == 0 and not serves:
        kind = "had ended"
        if whole is not None and works.check_output(work, place, whole, former) != "whole":
            raise Failure("exit 0, and the output is not whole")
    elif status == expected or early:
        kind = "interrupted"
    else:
        raise Failure(f"status {status} after SIG{name.upper()}: {harness.last_lines(err)}")
    left = works.leftovers(work, place, before)
    if left:
        raise Failure(f"{kind}, left behind: {', '.join(left)}")
    if whole is not None:
        state = works.check_output(work, place, whole, former)
        if state not in ("none", "former", "whole") and not work.grows:
            raise Failure(f"{kind}, left {state} under the name")
    return kind


def at_a_call(work, name, at, folder, place, force):
    report = folder / "report"
    prefix = [OPTIONS.inject, "--under", place, "--at", at, "--do", name, "--report", report, "--", OPTIONS.foreshard]
    outcome = works.perform(prefix, work, place, force=force)
    facts = dict(line.split(" ", 1) for line in report.read_text().splitlines() if " " in line)
    if int(facts["orphans"]):
        raise Failure(f"{facts['orphans']} programs that it started went on")
    return outcome


def at_a_time(work, name, seconds, place, force, rng):
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    more = ["--force"] if force and "--force" not in work.arguments else []
    arguments = [OPTIONS.foreshard, *work.arguments, *more]
    out = open(place / "out", "wb") if work.output == "out" else subprocess.DEVNULL
    process = harness.start(arguments, place, stdout=out)
    time.sleep(rng.random() * seconds)
    begun = time.monotonic()
    os.kill(process.pid, NUMBER[name])
    outcome = harness.outcome_of(process, begun, 20)
    if outcome.status is None or outcome.seconds > harness.SLOWER:
        raise Failure(f"it goes on for {outcome.seconds:.1f} s after SIG{name.upper()}")
    left = orphans()
    if left:
        raise Failure(f"{left} programs that it started went on")
    return outcome


def run_case(case, rng, folder):
    row, index, force, name, at = case
    work, whole = WORKS[index], WHOLE[index]
    place = folder / "place"
    place.mkdir()
    former = works.put_former(work, place) if force else None
    before = works.names(place) | ({"out"} if work.output == "out" else set())
    if at is not None:
        outcome = at_a_call(work, name, at, folder, place, force)
    else:
        outcome = at_a_time(work, name, SECONDS[index], place, force, rng)
    if work.output == "out":  # an answer is printed piece by piece
        return judge(work, name, outcome.status, outcome.err, place, None, None, before)
    return judge(work, name, outcome.status, outcome.err, place, former, whole, before)


def make_cases(root, made):
    cases = []
    names = list(STATUS)
    written = works.writing_works(made)
    for work in [*written, *works.printing_works(made), *long_works(made)]:
        index = len(WORKS)
        WORKS.append(work)
        if work.name in [each.name for each in long_works(made)]:
            WHOLE.append(None)
            SECONDS.append(1.5)
            cases += [("long commands, at random times", index, False, names[n % 3], None) for n in range(RANDOM_TIMES)]
            continue
        begun = time.monotonic()
        WHOLE.append(works.reference(OPTIONS.foreshard, work, root / f"reference-{index}"))
        SECONDS.append((time.monotonic() - begun) / 2)
        for force in (False, True) if work in written else ():
            count = works.count_writes(OPTIONS, root / f"count-{index}-{force}", work, force)
            cases += [("before each writing call", index, force, names[at % 3], at) for at in works.positions(count)]
        cases += [("at random times", index, n % 2 == 1 and work in written, names[n % 3], None)
                  for n in range(RANDOM_TIMES)]
    return cases


if __name__ == "__main__":
    OPTIONS = harness.read_options("signals")
    WORKS, WHOLE, SECONDS = [], [], []
    root = harness.work_folder()
    harness.figure(OPTIONS, "signals", "SIGINT, SIGTERM, SIGHUP",
                   make_cases(root, works.make_inputs(OPTIONS.foreshard, root / "inputs")), run_case)
