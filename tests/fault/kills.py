#!/usr/bin/env python3
"""Kills commands that write (SIGKILL) before each of their writing system calls, and at random times.

Afterwards no output, the former or the whole one stands under its name, to the byte; what was left beside a store
is refused or whole; and the same command, run again, leaves the whole output.
"""
import os
import signal
import subprocess
import time

import harness
import works
from harness import Failure, run

RANDOM_TIMES = 40  # of each command


def after_a_kill(work, place, force, former, whole):
    program = OPTIONS.foreshard
    kind = works.check_output(work, place, whole, former)
    for left in place.rglob("*.db.partial-*"):
        outcome = run([program, "query", left, "SELECT count(*) FROM event"], place)
        if outcome.status == 0 and left.read_bytes() != whole:
            raise Failure(f"{left.name}, left behind, opens and is not whole")
        if outcome.status != 0:
            harness.refused(outcome)
    there = (place / work.output).exists()
    again = works.perform([program], work, place, force=force or there)
    if again.status != 0:
        raise Failure(f"afterwards the command ends with {again.status}: {harness.last_lines(again.err)}")
    if works.check_output(work, place, whole, former) != "whole":
        raise Failure("afterwards the command does not leave the whole output")
    return {"none": "no output", "former": "the former output", "whole": "the whole output"}.get(kind, kind)


def run_case(case, rng, folder):
    row, index, force, at = case
    work, whole = WORKS[index], WHOLE[index]
    place = folder / "place"
    place.mkdir()
    former = works.put_former(work, place) if force else None
    if at is not None:
        prefix = [OPTIONS.inject, "--under", place, "--at", at, "--do", "kill", "--report", folder / "report", "--"]
        works.perform([*prefix, OPTIONS.foreshard], work, place, force=force)
    else:
        arguments = [OPTIONS.foreshard, *work.arguments, *(["--force"] if force else [])]
        process = harness.start(arguments, place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.random() * 1.1 * SECONDS[index])
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return after_a_kill(work, place, force, former, whole)


if __name__ == "__main__":
    OPTIONS = harness.read_options("kills")
    root = harness.work_folder()
    made = works.make_inputs(OPTIONS.foreshard, root / "inputs")
    WORKS = works.writing_works(made)
    WHOLE, SECONDS, cases = [], [], []
    for index, work in enumerate(WORKS):
        start = time.monotonic()
        WHOLE.append(works.reference(OPTIONS.foreshard, work, root / f"reference-{index}"))
        SECONDS.append((time.monotonic() - start) / 2)
        for force in (False, True):
            count = works.count_writes(OPTIONS, root / f"count-{index}-{force}", work, force)
            cases += [("before each writing call", index, force, at) for at in works.positions(count)]
        cases += [("at random times", index, n % 2 == 1, None) for n in range(RANDOM_TIMES)]
    harness.figure(OPTIONS, "kills", "SIGKILL", cases, run_case)
