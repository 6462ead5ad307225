#!/usr/bin/env python3
"""Lets system calls fail: every writing call of every command, one by one, and the reading calls of its inputs.

ENOSPC that stays, EDQUOT once, EIO, EINTR and short writes for each call that writes; EIO, EINTR and short reads for
each call that reads an input; EACCES, EMFILE and EINTR for each that opens one. After a short call and after EINTR the
answer is the same as ever: foreshard repeats the call. After another error the
command ends with a documented code and one error line that names the file, nothing is left behind, and what was under
the output's name still is; or it goes on, and its answer is the same.
"""
import harness
import works
from harness import Failure

ACTIONS = {"write": ["enospc --lasting", "edquot", "eio", "eintr", "short"], "read": ["eio", "eintr", "short"],
           "open": ["eacces", "emfile", "eintr"]}


def report_of(path):
    return dict(line.split(" ", 1) for line in path.read_text().splitlines() if " " in line)


def after_an_error(work, place, outcome, former, whole, before, facts):
    """The command failed: with a message, and as if it had never run."""
    printed = work.output == "out"
    call, _, path = facts["call"].partition(" ")
    codes = {1} if printed and path.endswith("/out") else {2, 3, 4}
    words = ["standard output"] if codes == {1} else [work.output, *work.sources]
    if codes == {1}:
        if outcome.status != 1 or "standard output" not in outcome.err:
            raise Failure(f"exit {outcome.status}: {harness.last_lines(outcome.err)}")
        return "refused"
    harness.refused(outcome, codes=codes, says=words)
    if printed:
        return "refused"
    kind = works.check_output(work, place, whole, former)
    if kind == "whole":
        return "refused, and the output is whole"
    if kind not in ("none", "former") and not work.grows:
        raise Failure(f"refused, but left {kind} under the name")
    left = works.leftovers(work, place, before)
    if left and not call.startswith(("unlink", "rmdir")):
        raise Failure(f"left behind: {', '.join(left)}")
    return "refused"


def run_case(case, rng, folder):
    row, index, force, calls, action, at = case
    work, whole = WORKS[index], WHOLE[index]
    place = folder / "place"
    place.mkdir()
    former = works.put_former(work, place) if force else None
    before = works.names(place)
    report = folder / "report"
    what, *lasting = action.split()
    prefix = [OPTIONS.inject, "--calls", calls, "--under", place if calls == "write" else INPUTS, "--at", at, "--do",
              what, *lasting, "--report", report, "--", OPTIONS.foreshard]
    outcome = works.perform(prefix, work, place, force=force)
    return judge(work, place, outcome, report_of(report), what, former, whole, before)


def judge(work, place, outcome, facts, what, former, whole, before):
    if int(facts["orphans"]):
        raise Failure("a program that it started went on")
    if facts["acted"] == "0":
        return "cannot fail so"
    if outcome.status == 0:
        if works.check_output(work, place, whole, former) != "whole":
            raise Failure(f"exit 0 after {what} of {facts['call']}, and the output is not whole")
        left = works.leftovers(work, place, before)
        if left and not facts["call"].startswith(("unlink", "rmdir")):
            raise Failure(f"exit 0, left behind: {', '.join(left)}")
        return "the same answer"
    if what in ("short", "eintr"):
        raise Failure(f"{what} of {facts['call']} ends it: exit {outcome.status}: {harness.last_lines(outcome.err)}")
    try:
        return after_an_error(work, place, outcome, former, whole, before, facts)
    except Failure as failure:
        raise Failure(f"{what} of {facts['call']}: {failure}") from None


def count_reads(folder, work, calls):
    """How many calls read (or open) the command's inputs."""
    place = folder / calls
    place.mkdir(parents=True)
    report = folder / "report"
    prefix = [OPTIONS.inject, "--calls", calls, "--under", INPUTS, "--report", report, "--", OPTIONS.foreshard]
    works.perform(prefix, work, place)
    return int(report.read_text().split()[1])


def falls_short(folder):
    """Whether inject may do half of a call for another process: some containers keep pidfd_getfd from it."""
    folder.mkdir()
    command = ["--under", folder, "--at", 2, "--do", "short", "--report", folder / "report", "--", "sh", "-c",
               "echo halves >x"]
    return harness.run([OPTIONS.inject, *command], folder).status != harness.SKIPPED


if __name__ == "__main__":
    OPTIONS = harness.read_options("io_errors")
    root = harness.work_folder()
    if not falls_short(root / "short"):
        print("short calls are left out: they cannot be made here")
        ACTIONS = {calls: [each for each in actions if each != "short"] for calls, actions in ACTIONS.items()}
    INPUTS = root / "inputs"
    made = works.make_inputs(OPTIONS.foreshard, INPUTS)
    written, printed = works.writing_works(made), works.printing_works(made)
    WORKS, WHOLE, cases = written + printed, [], []
    for index, work in enumerate(WORKS):
        WHOLE.append(works.reference(OPTIONS.foreshard, work, root / f"reference-{index}"))
        for force in (False, True) if work in written else (False,):
            count = works.count_writes(OPTIONS, root / f"count-{index}-{force}", work, force)
            cases += [(f"{action} of a writing call", index, force, "write", action, at)
                      for action in ACTIONS["write"] for at in works.positions(count)]
        for calls in ("read", "open") if work.sources else ():
            count = count_reads(root / f"count-{index}", work, calls)
            some = works.positions(count) if work.reads else works.positions(count, 4)
            cases += [(f"{action} of {'a reading' if calls == 'read' else 'an opening'} call", index, False, calls,
                       action, at) for action in ACTIONS[calls] for at in some]
    harness.figure(OPTIONS, "io_errors", "system calls that fail", cases, run_case)
