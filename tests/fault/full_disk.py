#!/usr/bin/env python3
"""Disks that are full and outputs that nobody takes.

Every command that writes a file: with a limit of file size, on a file system of a few pages (where it may be mounted:
root), with descriptors 0 to 2 closed. Every command that prints: with its output closed, on /dev/full, and into a pipe
whose reader goes. A full disk ends with a documented code, names the file and leaves nothing behind.
"""
import ctypes
import os
import random
import signal
import subprocess

import harness
import works
from harness import Failure, refused

SIZES = 10  # of the limit and of the file system, for each command
CLONE_NEWNS = 0x00020000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
PAGE = 4096


def size_of(output):
    return sum(map(len, output.values())) if isinstance(output, dict) else len(output)


def largest(output):
    return max(map(len, output.values())) if isinstance(output, dict) else len(output)


def judge(work, place, outcome, whole, former, before):
    if outcome.status == 0:
        if works.check_output(work, place, whole, former) != "whole":
            raise Failure("exit 0, and the output is not whole")
        kind = "the whole output"
    else:
        refused(outcome, codes={3}, says=[work.output, *work.sources])
        state = works.check_output(work, place, whole, former)
        if state not in ("none", "former", "whole") and not work.grows:
            raise Failure(f"refused, but left {state} under the name")
        kind = "refused, and this output of two is whole" if state == "whole" else "refused"
    left = works.leftovers(work, place, before)
    if left:
        raise Failure(f"{kind}, left behind: {', '.join(left)}")
    return kind


def may_mount():
    """Whether this process may mount; in a child, because what is mounted there stays there."""
    child = os.fork()
    if child == 0:
        os._exit(0 if own_mounts() else 1)
    return os.waitpid(child, 0)[1] == 0


def own_mounts():
    libc = ctypes.CDLL(None)
    return libc.unshare(CLONE_NEWNS) == 0 and libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) == 0


def on_small_disk(work, place, force, size, whole):
    libc = ctypes.CDLL(None)
    if not own_mounts() or libc.mount(b"tmpfs", os.fsencode(place), b"tmpfs", 0, f"size={size}".encode()) != 0:
        raise Failure("the small file system could not be mounted")
    try:
        former = works.put_former(work, place) if force else None
        before = works.names(place)
        outcome = works.perform([OPTIONS.foreshard], work, place, force=force)
        return judge(work, place, outcome, whole, former, before)
    finally:
        libc.umount2(os.fsencode(place), 2)


def printed(work, way, place):
    """An answer that cannot be printed: exit 1, and it says so; into a pipe without a reader: SIGPIPE."""
    arguments = [OPTIONS.foreshard, *work.arguments]
    if way == "closed":
        outcome = harness.run(arguments, place, closed=[1])
    elif way == "full":
        with open("/dev/full", "wb") as out:
            outcome = harness.run(arguments, place, stdout=out)
    else:
        end, out = os.pipe()
        os.close(end)
        outcome = harness.run(arguments, place, stdout=out)
        os.close(out)
        if outcome.status != -signal.SIGPIPE:
            raise Failure(f"status {outcome.status}, not SIGPIPE: {harness.last_lines(outcome.err)}")
        return "ended by SIGPIPE"
    if outcome.status != 1 or "standard output cannot be written" not in outcome.err:
        raise Failure(f"status {outcome.status}: {harness.last_lines(outcome.err)}")
    return "refused"


def with_closed(work, place, force, closed, whole):
    """Whatever descriptor a file of it gets, nothing else is printed into it."""
    former = works.put_former(work, place) if force else None
    before = works.names(place)
    outcome = works.perform([OPTIONS.foreshard], work, place, force=force, closed=closed, stdout=subprocess.DEVNULL)
    if outcome.status not in (0, 1):
        raise Failure(f"status {outcome.status}: {harness.last_lines(outcome.err)}")
    if works.check_output(work, place, whole, former) != "whole":
        raise Failure(f"status {outcome.status}, and the output is not whole")
    left = works.leftovers(work, place, before)
    if left:
        raise Failure(f"left behind: {', '.join(left)}")
    return "the whole output"


def run_case(case, rng, folder):
    row, index, force, detail = case
    work, whole = WORKS[index], WHOLE[index]
    place = folder / "place"
    place.mkdir()
    if row.startswith("an answer"):
        return printed(work, detail, place)
    if row.startswith("descriptors"):
        return with_closed(work, place, force, detail, whole)
    if row.startswith("a disk"):
        return on_small_disk(work, place, force, detail, whole)
    former = works.put_former(work, place) if force else None
    before = works.names(place)
    outcome = works.perform([OPTIONS.foreshard], work, place, force=force, file_size=detail)
    return judge(work, place, outcome, whole, former, before)


def make_cases(root, made):
    cases, mounts = [], may_mount()
    for work in works.writing_works(made):
        index = len(WORKS)
        WORKS.append(work)
        WHOLE.append(works.reference(OPTIONS.foreshard, work, root / f"reference-{index}"))
        rng = random.Random(f"{OPTIONS.seed}/{work.name}")
        biggest, total = largest(WHOLE[-1]), size_of(WHOLE[-1])
        limits = [0, 1, biggest - 1, biggest] + [rng.randrange(biggest) for _ in range(SIZES - 4)]
        disks = [rng.randrange(1, 2 + total // PAGE) * PAGE for _ in range(SIZES - 1)] + [4 * total + 64 * PAGE]
        for n in range(SIZES):
            cases.append(("a limit of file size", index, n % 2 == 1, limits[n]))
            if mounts:
                cases.append(("a disk of a few pages", index, n % 2 == 1, disks[n]))
        cases += [("descriptors closed", index, force, closed)
                  for force in (False, True) for closed in ([0], [1], [2], [0, 1], [1, 2], [0, 1, 2])]
    more = [works.Work(" ".join(words), words, "out", False, [])
            for words in (["--help"], ["--version"], ["plan", "--help"])]
    for work in [*works.printing_works(made), *more]:
        WORKS.append(work)
        WHOLE.append(None)
        for way, row in (("closed", "closed"), ("full", "on /dev/full"), ("gone", "whose reader is gone")):
            cases.append((f"an answer {'into a pipe ' if way == 'gone' else ''}{row}", len(WORKS) - 1, False, way))
    return cases


if __name__ == "__main__":
    OPTIONS = harness.read_options("full_disk")
    WORKS, WHOLE = [], []
    root = harness.work_folder()
    harness.figure(OPTIONS, "full_disk", "full disk",
                   make_cases(root, works.make_inputs(OPTIONS.foreshard, root / "inputs")), run_case)
