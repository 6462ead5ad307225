"""The commands that write files, and the inputs that they need: what kills, failing calls and signals are tried on."""
import collections
import pathlib
import shutil

from harness import ROOT, SAMPLES, SKIPPED, Failure, contents, last_lines, names, run

Work = collections.namedtuple("Work", "name arguments output grows sources reads", defaults=(False,))
"""arguments: behind the program's name, the output's name in them; grows: the file is written line by line under its
name; sources: names of the files that it reads, for messages; reads: it stands for those that read such files."""

MOST_POSITIONS = 100

FORMER = b"what was here before\n"
FORMATS = ["perfetto", "chrome", "snapshot", "dot", "svg-graph", "csv", "chakra"]
SMALL = ["mlp", "--dim", "64", "--layers", "2"]


def make_inputs(program, folder):
    """A folder with all that the commands read: a recording, a measurement, an import, two plans."""
    folder.mkdir(parents=True)
    for kind in ("pickle.xz", "trace.json.xz", "about.json"):
        shutil.copy(SAMPLES / f"mlp_implicit.{kind}", folder)
    shutil.copy(ROOT / "tests/docs/all_gather_perf.txt", folder)
    made = {"sample": folder / "mlp_implicit", "folder": folder}
    sample = made["sample"]
    commands = {
        "run.db": ["import", "--snapshot", f"{sample}.pickle.xz", "--trace", f"{sample}.trace.json.xz", "--about",
                   f"{sample}.about.json"],
        "plan.db": ["plan", *SMALL],
        "other.db": ["plan", *SMALL, "--reshard-after-forward", "false"],
    }
    for name, arguments in commands.items():
        made[name] = folder / name
        outcome = run([program, *arguments, "-o", made[name], "-q"], folder)
        if outcome.status != 0:
            raise SystemExit(f"{name} could not be made: {last_lines(outcome.err)}")
    return made


def writing_works(made):
    sample = made["sample"]
    run_db, plan, other = made["run.db"], made["plan.db"], made["other.db"]
    recording = ["--snapshot", f"{sample}.pickle.xz", "--trace", f"{sample}.trace.json.xz", "--about",
                 f"{sample}.about.json"]
    recorded = ["mlp_implicit.pickle.xz", "mlp_implicit.trace.json.xz", "mlp_implicit.about.json"]
    works = [
        Work("import", ["import", *recording, "-o", "o.db"], "o.db", False, recorded, True),
        Work("import --write-about", ["import", *recording[:4], "-o", "../unused.db", "--force", "--write-about",
                                      "o.json"], "o.json", False, [*recorded[:2], "unused.db"]),
        Work("plan", ["plan", *SMALL, "-o", "o.db"], "o.db", False, []),
        Work("plan of a store", ["plan", run_db, "-o", "o.db"], "o.db", False, ["run.db"], True),
        Work("sweep --csv", ["sweep", *SMALL, "--batch", "1..3", "--jobs", "1", "--csv", "o.csv"], "o.csv", False, []),
        Work("sweep --progress", ["sweep", *SMALL, "--batch", "1..3", "--jobs", "1", "--progress", "o.jsonl"],
             "o.jsonl", True, []),
        Work("sweep -o", ["sweep", *SMALL, "--batch", "1..3", "--jobs", "1", "-o", "o.db"], "o.db", False, []),
        Work("compare", ["compare", plan, other, "-o", "o.html"], "o.html", False, ["plan.db", "other.db"]),
        Work("explain --time", ["explain", plan, "--time", "-o", "o.svg"], "o.svg", False, ["plan.db"]),
        Work("calibrate", ["calibrate", made["folder"] / "all_gather_perf.txt", "--base", "h200",
                           "--transport", "nccl", "-o", "o.json"], "o.json", False, ["all_gather_perf.txt"], True),
    ]
    for kind in ("html", "svg", "png", "pdf"):
        works.append(Work(f"view {kind}", ["view", plan, "-o", f"o.{kind}"], f"o.{kind}", False, ["plan.db"]))
    for kind in FORMATS:
        works.append(Work(f"export {kind}", ["export", plan, "--format", kind, "-o", f"o.{kind}"], f"o.{kind}", False,
                          ["plan.db"]))
    works.append(Work("export chrome.gz", ["export", run_db, "--format", "chrome", "-o", "o.gz"], "o.gz", False,
                      ["run.db"]))
    return runnable(works)


def runnable(works):
    """Those whose pictures the programs that are here can draw."""
    def needs(work):
        if work.output.endswith((".png", ".pdf")):
            return "rsvg-convert"
        return "dot" if "svg-graph" in work.arguments else None
    return [work for work in works if needs(work) is None or shutil.which(needs(work))]


def printing_works(made):
    """Commands whose answer is on standard output."""
    run_db, plan, other = made["run.db"], made["plan.db"], made["other.db"]
    sample = made["sample"]
    return [
        Work("plan, printed", ["plan", *SMALL, "--detail"], "out", False, []),
        Work("plan --json", ["plan", *SMALL, "--json"], "out", False, []),
        Work("sweep, printed", ["sweep", *SMALL, "--batch", "1,2", "--jobs", "1"], "out", False, []),
        Work("explain", ["explain", run_db, "--no-remedies"], "out", False, ["run.db"]),
        Work("explain of a snapshot", ["explain", f"{sample}.pickle.xz", "--no-remedies"], "out", False,
             ["mlp_implicit.pickle.xz"], True),
        Work("explain --time, printed", ["explain", plan, "--time", "--no-remedies"], "out", False, ["plan.db"]),
        Work("compare, printed", ["compare", plan, other, "--json"], "out", False, ["plan.db", "other.db"],
             True),
        Work("replay", ["replay", f"{sample}.pickle.xz"], "out", False, ["mlp_implicit.pickle.xz"], True),
        Work("query", ["query", plan, "SELECT * FROM device_op", "--csv"], "out", False, ["plan.db"], True),
        Work("export, printed", ["export", plan, "--format", "chrome", "-o", "-"], "out", False, ["plan.db"],
             True),
        Work("machines", ["machines", "h200"], "out", False, []),
    ]


def reference(program, work, folder):
    """The output of the command when nothing disturbs it, made twice; they must be equal."""
    made = []
    for again in ("a", "b"):
        place = folder / again
        place.mkdir(parents=True)
        outcome = perform([program], work, place)
        if outcome.status != 0:
            raise SystemExit(f"{work.name} fails undisturbed: {last_lines(outcome.err)}")
        made.append(contents(place / work.output))
    if made[0] != made[1] or not made[0]:
        raise SystemExit(f"{work.name} is not the same twice")
    return made[0]


def perform(prefix, work, place, force=False, **more):
    """Runs a command by way of `prefix`, the words before its own; printed answers go into the file `out`."""
    arguments = [*prefix, *work.arguments, *(["--force"] if force and "--force" not in work.arguments else [])]
    if work.output != "out":
        return run(arguments, place, **more)
    with open(pathlib.Path(place) / "out", "wb") as out:
        return run(arguments, place, stdout=out, **more)


def put_former(work, place):
    """Something under the output's name, that only a whole output may take the place of."""
    path = pathlib.Path(place) / work.output
    if work.output == "o.csv" and work.name.startswith("export"):
        path.mkdir()
        for table in ("run.csv", "step.csv"):
            (path / table).write_bytes(FORMER)
        return {"run.csv": FORMER, "step.csv": FORMER}
    path.write_bytes(FORMER)
    return FORMER


def check_output(work, place, whole, former):
    """None, the former or the whole output stand under the name; which of them. Anything else is a failure."""
    seen = contents(pathlib.Path(place) / work.output)
    if seen == whole:
        return "whole"
    if work.grows and seen is not None and whole.startswith(seen):
        return "whole lines" if seen.endswith(b"\n") or not seen else "lines"
    if seen == former:
        return "none" if former is None else "former"
    raise Failure(f"{work.output} is neither whole nor what it was ({len(seen) if seen else seen} bytes)")


def leftovers(work, place, before):
    """Names in the folder that were not there, beside the output's own."""
    own = work.output
    new = names(place) - before - {own}
    return sorted(name for name in new if not name.startswith(own + "/") or ".partial-" in name)


def count_writes(options, folder, work, force):
    """How many calls of the command write into its folder."""
    place = folder / "place"
    place.mkdir(parents=True)
    if force:
        put_former(work, place)
    report = folder / "report"
    outcome = perform([options.inject, "--under", place, "--report", report, "--", options.foreshard], work, place,
                      force=force)
    if outcome.status == SKIPPED:
        print(outcome.err)
        raise SystemExit(SKIPPED)
    return int(report.read_text().split()[1])


def positions(count, most=MOST_POSITIONS):
    """Which of a command's calls are tried: each, or `most` of them from the first to the last.

    Only `view -o x.pdf` has more: rsvg-convert writes a PDF in hundreds of pieces.
    """
    if count <= most:
        return list(range(1, count + 1))
    return sorted({1 + round(i * (count - 1) / (most - 1)) for i in range(most)})
