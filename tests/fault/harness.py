"""What the figures of docs/reliability.md share: options, cases run in parallel, one line and one result file.

A figure is a script of this folder that hands `figure()` a list of cases and a function that runs one of them. Each
case has a random generator of its own, seeded by the figure's seed and the case's number, so that it can be run again
alone:

    tests/fault/kills.py --seed 16 --only 1234 --keep

Options of every figure: --share N (this fraction of the cases, drawn by the seed; default 1), --seed, --jobs,
--foreshard PROGRAM, --inject PROGRAM, --only CASE, --keep (leaves the case's folder), --results FOLDER.
"""
import argparse
import collections
import datetime
import json
import multiprocessing
import os
import pathlib
import platform
import random
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SAMPLES = ROOT / "traces" / "samples"
SKIPPED = 77

# docs/exit_codes.md: a refusal is one of these. 1 (internal error) and 134 (a failed check) are bugs of foreshard's.
WRONG_INPUT = {3, 4}
REFUSALS = {2, 3, 4, 10, 11}

Outcome = collections.namedtuple("Outcome", "status out err seconds rss processor")
"""status: the exit code, or -signal, or None where it ran past its time; rss: its peak in bytes; processor: seconds."""


class Failure(Exception):
    """A case that must not be: its text says what was seen."""


def environment():
    """A plain one: nothing of the caller's changes an answer. Pictures carry no date."""
    out = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C.UTF-8", "NO_COLOR": "1",
           "SOURCE_DATE_EPOCH": "0", "HOME": "/nonexistent", "TMPDIR": os.environ.get("TMPDIR", "/tmp")}
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"):
        if name in os.environ:
            out[name] = os.environ[name]
    return out


def limits(memory, file_size, closed):
    def apply():
        if memory and not SANITIZED:  # a sanitizer's shadow is terabytes of addresses
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        if file_size is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # ignored where nohup or a shell's & started us
            signal.signal(each, signal.SIG_DFL)
        for descriptor in closed:
            os.close(descriptor)
    return apply


def start(arguments, folder, *, memory=4 << 30, file_size=None, closed=(), stdout=subprocess.PIPE,
          stderr=subprocess.PIPE):
    """A program in a session of its own. closed: which of its descriptors 0 to 2 are not open."""
    return subprocess.Popen([str(a) for a in arguments], cwd=folder, env=environment(), start_new_session=True,
                            stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
                            preexec_fn=limits(memory, file_size, closed))


def run(arguments, folder, *, seconds=60, **more):
    """Runs a program in `folder` and waits; after `seconds` it is killed with all that it started."""
    begun = time.monotonic()
    return outcome_of(start(arguments, folder, **more), begun, seconds)


def outcome_of(process, begun, seconds):
    """Waits for a program of start(), and reads what it says until it has ended."""
    pieces = {pipe: [] for pipe in (process.stdout, process.stderr) if pipe}
    poll = select.poll()
    by_number = {}
    for pipe in pieces:
        os.set_blocking(pipe.fileno(), False)
        by_number[pipe.fileno()] = pipe
        poll.register(pipe, select.POLLIN)
    deadline, status, usage, pause = begun + seconds * SLOWER, None, None, 1
    while usage is None:
        for number, _ in poll.poll(pause):
            data = os.read(number, 1 << 20)
            pieces[by_number[number]].append(data)
            if not data:
                poll.unregister(number)
        gone, code, used = os.wait4(process.pid, os.WNOHANG)
        if gone:
            status, usage = os.waitstatus_to_exitcode(code), used
        elif time.monotonic() > deadline:
            os.killpg(process.pid, signal.SIGKILL)
            _, _, usage = os.wait4(process.pid, 0)
        pause = min(pause + 1, 20)
    process.returncode = 0 if status is None else status
    for pipe, parts in pieces.items():
        parts.append(rest_of(pipe))
        pipe.close()
    out, err = (b"".join(pieces[pipe]) if pipe else b"" for pipe in (process.stdout, process.stderr))
    return Outcome(status, out, err.decode("utf-8", "replace"), time.monotonic() - begun, usage.ru_maxrss * 1024,
                   usage.ru_utime + usage.ru_stime)


def running(pid):
    """Whether a child has not ended; it is still to be waited for."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def rest_of(pipe):
    """What is left in a pipe now; who has its other end may go on."""
    parts = []
    try:
        while data := os.read(pipe.fileno(), 1 << 20):
            parts.append(data)
    except BlockingIOError:
        pass
    return b"".join(parts)


def contents(path):
    """The bytes of a file, those of a folder's files by name, or None where nothing is."""
    path = pathlib.Path(path)
    if path.is_dir():
        return {each.name: each.read_bytes() for each in sorted(path.iterdir())}
    return path.read_bytes() if path.exists() else None


def names(folder):
    return {str(each.relative_to(folder)) for each in pathlib.Path(folder).rglob("*")}


def last_lines(text, count=3):
    return " | ".join(text.strip().splitlines()[-count:])[:600]


def crashed(outcome):
    """What is a bug whatever the input was: a signal, an internal error, no end; None where there is none of it."""
    if outcome.status is None:
        return f"no end after {outcome.seconds:.0f} s"
    if outcome.status < 0 or outcome.status >= 128:
        return f"ended by a signal or a failed check: status {outcome.status}: {last_lines(outcome.err, 6)}"
    if outcome.status == 1 or re.search(r"Sanitizer|runtime error:|internal error", outcome.err):
        return f"internal error: status {outcome.status}: {last_lines(outcome.err, 6)}"
    return None


def refused(outcome, codes=frozenset(WRONG_INPUT), says=()):
    """Checks a refusal: its exit code, one `error:` line, which has one of the words `says`."""
    wrong = crashed(outcome)
    if wrong:
        raise Failure(wrong)
    errors = [line for line in outcome.err.splitlines() if line.startswith("error:")]
    if outcome.status not in codes:
        raise Failure(f"exit {outcome.status}, not one of {sorted(codes)}: {last_lines(outcome.err)}")
    if len(errors) != 1:
        raise Failure(f"exit {outcome.status} with {len(errors)} error lines: {last_lines(outcome.err)}")
    if says and not any(str(word) in errors[0] for word in says):
        raise Failure(f"the message does not name the file: {errors[0][:300]}")


def read_options(name, more=()):
    """more: (option, what argparse wants of it) of this figure alone."""
    parser = argparse.ArgumentParser(prog=f"tests/fault/{name}.py", formatter_class=argparse.RawTextHelpFormatter,
                                     description=sys.modules["__main__"].__doc__)
    parser.add_argument("--share", type=float, default=1, metavar="N", help="fraction of the cases; default 1")
    parser.add_argument("--seed", type=int, default=16)
    parser.add_argument("--jobs", type=int, default=int(os.environ.get("FORESHARD_JOBS", os.cpu_count())))
    parser.add_argument("--foreshard", default=os.environ.get("FORESHARD", ROOT / "build/release/foreshard"))
    parser.add_argument("--inject", default=os.environ.get("INJECT", ROOT / "build/release/tests/fault/inject"))
    parser.add_argument("--only", type=int, metavar="CASE", help="runs this case alone and says what happened")
    parser.add_argument("--keep", action="store_true", help="with --only: leaves its folder")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "build/fault",
                        help="folder of the result files; default build/fault")
    for option, facts in more:
        parser.add_argument(option, **facts)
    options = parser.parse_args()
    options.foreshard = pathlib.Path(options.foreshard).resolve()
    options.inject = pathlib.Path(options.inject).resolve()
    if not options.foreshard.exists():
        sys.exit(f"{name}: {options.foreshard} is not there: build it, or give --foreshard")
    global SANITIZED, SLOWER
    SANITIZED = sanitizer(options.foreshard)
    SLOWER = 10 if SANITIZED else 1
    return options


SANITIZED = None
SLOWER = 1


def sanitizer(program):
    """The sanitizers in a program, by the symbols that it needs or has; None for a plain one."""
    data = pathlib.Path(program).read_bytes()
    if b"__asan_init" in data:
        return "ASan and UBSan"
    return "TSan" if b"__tsan_init" in data else None


def machine():
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores of {platform.machine()}, {memory:.0f} GiB"


class Tally:
    """Cases by row and class, the failures among them, and the largest of each thing that was measured."""

    def __init__(self):
        self.rows = {}
        self.measures = {}
        self.failures = []

    def add(self, row, kind, count=1):
        classes = self.rows.setdefault(row, {})
        classes[kind] = classes.get(kind, 0) + count

    def add_result(self, row, result):
        """A class, or ({class: how many}, {what: value})."""
        if isinstance(result, str):
            return self.add(row, result)
        counts, measured = result
        for kind, count in counts.items():
            self.add(row, kind, count)
        values = self.measures.setdefault(row, {})
        for what, value in measured.items():
            values[what] = max(value, values.get(what, value))

    def fail(self, row, text, again):
        self.add(row, "failed")
        self.failures.append((row, text, again))
        if len(self.failures) <= 40:
            print(f"FAILED {row}: {text}\n    {again}", flush=True)


_work = {}


def _call(number):
    """One case in a worker: (number, class) or (number, None, text of the failure)."""
    case = _work["cases"][number]
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"case-{number}-", dir=_work["folder"]))
    rng = random.Random(f"{_work['seed']}/{_work['name']}/{number}")
    try:
        return number, _work["function"](case, rng, folder), None
    except Failure as failure:
        return number, None, str(failure)
    except Exception as error:  # a fault of the harness, or an answer of a form that it does not know
        return number, None, f"{type(error).__name__}: {error}"
    finally:
        if _work["keep"]:
            print(f"case {number}: {case!r}\nfolder: {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def work_folder():
    """A folder for the cases, removed at the end of the program: not that of a worker, which is a copy of it."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="foreshard-fault-"))
    _work["root"] = (path, os.getpid())
    return path


def remove_work_folder():
    path, owner = _work.get("root", (None, None))
    if path and owner == os.getpid():
        shutil.rmtree(path, ignore_errors=True)


def figure(options, name, title, cases, function, all_cases=False):
    """Runs a share of `cases` (all_cases: they take the share themselves), each a tuple that begins with its row.

    function(case, rng, folder) returns what Tally.add_result() takes, or raises Failure. Exits 1 where one failed.
    """
    chosen = list(range(len(cases)))
    if options.only is not None:
        chosen = [options.only]
    elif options.share < 1 and not all_cases:
        drawn = random.Random(f"{options.seed}/{name}").sample(chosen, max(1, round(len(cases) * options.share)))
        chosen = sorted(drawn)
    _work.update(cases=cases, function=function, seed=options.seed, name=name,
                 folder=_work["root"][0], keep=options.keep and options.only is not None)
    start = time.monotonic()
    tally = Tally()
    try:
        with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
            for number, kind, text in pool.imap_unordered(_call, chosen, chunksize=4):
                if kind is not None:
                    tally.add_result(cases[number][0], kind)
                else:
                    tally.fail(cases[number][0], text, f"tests/fault/{name}.py --seed {options.seed} --only {number}")
                if options.only is not None:
                    print(f"case {number}: {'FAILED' if kind is None else kind}")
    finally:
        if not _work["keep"]:
            remove_work_folder()
    finish(options, name, title, tally, time.monotonic() - start)


def command_of(options, name):
    """What makes the result again, but for its share and seed."""
    return f"tests/fault/{name}.py" + (" --full" if getattr(options, "full", False) else "")


def finish(options, name, title, tally, seconds):
    """Prints a line for each row, writes the result file, and ends the program: with 1 where a case failed."""
    order = sorted(tally.rows)
    for row in order:
        classes = tally.rows[row]
        kinds = "; ".join(f"{count:,} {kind}" for kind, count in sorted(classes.items(), key=lambda c: -c[1]))
        measured = "".join(f"; {what} {value:g}" for what, value in tally.measures.get(row, {}).items())
        print(f"{title}, {row} | {sum(classes.values()):,} | {kinds}{measured}")
    print(f"{name}: seed {options.seed}, share {options.share:g}, {seconds:.0f} s, {len(tally.failures)} failed",
          flush=True)
    if options.only is None:
        result = {"figure": name, "title": title, "command": command_of(options, name), "seed": options.seed,
                  "share": options.share, "seconds": round(seconds, 1), "machine": machine(),
                  "date": datetime.date.today().isoformat(), "sanitizer": SANITIZED,
                  "rows": [{"what": row, "classes": tally.rows[row], "measures": tally.measures.get(row, {})}
                           for row in order],
                  "failures": [{"what": r, "text": t, "again": a} for r, t, a in tally.failures]}
        options.results.mkdir(parents=True, exist_ok=True)
        suffix = "" if SANITIZED is None else "." + SANITIZED.split()[0].lower()
        (options.results / f"{name}{suffix}.json").write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    if not _work.get("keep"):
        remove_work_folder()
    sys.exit(1 if tally.failures else 0)
