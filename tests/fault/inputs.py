#!/usr/bin/env python3
"""Mutated inputs of every kind, carried through: whatever is taken is imported or planned, drawn, compared, served
and exported.

No crash, no internal error, no verb without an end, no page that cannot be given; a refusal has a documented exit code
and one error line that names a file.
"""
import random
import shutil
import time

import harness
import pages
from harness import Failure, refused, run
from mutate import File, mutate_bytes

COUNT = 100  # of each kind
FORMATS = ["perfetto", "chrome", "snapshot", "dot", "csv", "chakra"]
SMALL = ["mlp", "--dim", "64", "--layers", "2"]
GOLDEN = harness.ROOT / "tests/golden/inputs"
CORPUS = harness.ROOT / "tests/fuzz/corpus"
SAMPLE = harness.SAMPLES / "mlp_implicit"
RECORDING = ["--snapshot", "r.pickle.xz", "--trace", "r.trace.json.xz", "--about", "r.about.json"]

BFLOAT16 = ["--gpus", "2", "--param-dtype", "bfloat16"]

# What is mutated: the kind; the files that the commands need; which is mutated; the commands whose answer is not
# carried on, and the one that makes the store.
KINDS = {
    "snapshot": (RECORDING[1::2], "r.pickle.xz",
                 [["replay", "r.pickle.xz"], ["explain", "r.pickle.xz", "--no-remedies"]], ["import", *RECORDING]),
    "snapshot alone": (["r.pickle.xz"], "r.pickle.xz", [], ["import", "--snapshot", "r.pickle.xz"]),
    "trace": (RECORDING[1::2], "r.trace.json.xz", [], ["import", *RECORDING]),
    "trace alone": (["r.trace.json.xz"], "r.trace.json.xz", [], ["import", "--trace", "r.trace.json.xz"]),
    "about": (RECORDING[1::2], "r.about.json", [], ["import", *RECORDING]),
    "ranks of a folder": (["rec"], "rec/", [], ["import", "rec", "--rank", "all"]),
    "files of a folder": (["rec"], "rec", [], ["import", "rec"]),
    "config.json": (["config.json"], "config.json", [["sweep", "config.json", *BFLOAT16, "--batch", "1,2"]],
                    ["plan", "config.json", *BFLOAT16]),
    "safetensors": (["x.safetensors"], "x.safetensors", [], ["plan", "x.safetensors", "--gpus", "2"]),
    "machine profile": (["machine.json"], "machine.json", [["machines", "machine.json"]],
                        ["plan", *SMALL, "--gpus", "2", "--machine", "machine.json"]),
    "workload": (["workload.json"], "workload.json", [], ["plan", "workload.json"]),
    "prefetch lists": (["lists.json", "run.db"], "lists.json", [],
                       ["plan", "run.db", "--prefetch-lists", "lists.json"]),
    "nccl-tests": (["all_gather_perf.txt"], "all_gather_perf.txt",
                   [["calibrate", "all_gather_perf.txt", "--transport", "nccl", "-o", "made.json", "--force"]],
                   ["plan", *SMALL, "--gpus", "2", "--machine", "made.json"]),
    "topology": (["topology.xml"], "topology.xml",
                 [["calibrate", "topology.xml", "-o", "made.json", "--force"]],
                 ["plan", *SMALL, "--gpus", "2", "--machine", "made.json"]),
    "progress": (["sweep.jsonl"], "sweep.jsonl", [], None),
}


def one(arguments, place, says, seconds=60):
    """Runs a command: its outcome where it is refused, or None. A sweep may say in its table that no point runs."""
    outcome = run([OPTIONS.foreshard, *arguments], place, seconds=seconds, memory=3 << 30)
    if outcome.status == 0:
        return None
    if arguments[0] == "replay" and outcome.status == 13:
        return None
    if arguments[0] == "sweep" and outcome.status == 2 and "no point runs" in outcome.out.decode():
        return outcome
    try:
        refused(outcome, codes=harness.REFUSALS, says=says)
    except Failure as failure:
        raise Failure(f"{' '.join(map(str, arguments))}: {failure}") from None
    return outcome


def carry(place, rng, making=0):
    """The store through everything that draws it; True where all of it went. making: seconds that it took to make: a
    page plans the step again for each of its remedies, of which there are up to 20, whatever the size of the model."""
    kind = rng.choice(FORMATS)
    done = [one(arguments, place, ["o.db"], 60 + 20 * making) is None for arguments in (
        ["view", "o.db", "-o", "o.html"], ["compare", "o.db", "good.db", "-o", "both.html", "--json"],
        ["view", "o.db", "-o", "o.svg", "--step", "all"], ["explain", "o.db", "--time", "--no-remedies"],
        ["export", "o.db", "--format", kind, "-o", "o.out"])]
    try:
        wrong, answers = pages.visit(OPTIONS.foreshard, "o.db", place, seconds=60 + 20 * making)
    except Failure as failure:
        raise Failure(f"serve: {failure}") from None
    if wrong is not None:
        refused(wrong, codes=harness.REFUSALS, says=["o.db"])
    elif any(status >= 500 for status, _ in answers):
        raise Failure(f"serve answers {[status for status, _ in answers]}")
    return all(done) and wrong is None


def serve_progress(place):
    server = pages.Server(OPTIONS.foreshard, ["sweep.jsonl"], place)
    if server.port is None:
        refused(server.outcome, codes=harness.REFUSALS, says=["sweep.jsonl"])
        return "refused"
    paths = ("/", "/run/0/", "/run/0/progress?from=0", "/run/0/progress?from=99")
    statuses = [server.ask("GET", path)[0] for path in paths]
    server.stop()
    if any(status >= 500 for status in statuses):
        raise Failure(f"serve answers {statuses}")
    return "carried through"


def mutate_folder(folder, rng):
    """Files that are missing, there twice, of another rank, cut, or not what their names say."""
    for _ in range(rng.choice([1, 1, 2, 4])):
        files = sorted(each for each in folder.iterdir() if each.is_file() and not each.is_symlink())
        if not files:
            return
        one_file, other = rng.choice(files), rng.choice(files)
        kind = rng.choice(["remove", "copy", "rename", "cut", "bytes", "link", "folder", "swap"])
        new = folder / rng.choice(["rank7." + one_file.name, one_file.name + ".1", one_file.name.replace("0", "1"),
                                   "x" + one_file.name, "a\x1b[1m.json", "é.pickle"])
        if kind == "remove":
            one_file.unlink()
        elif kind == "copy" and not new.exists():
            shutil.copy(one_file, new)
        elif kind == "rename" and not new.exists():
            one_file.rename(new)
        elif kind == "cut":
            one_file.write_bytes(one_file.read_bytes()[:rng.randrange(5000)])
        elif kind == "bytes":
            one_file.write_bytes(mutate_bytes(one_file.read_bytes(), rng))
        elif kind == "link" and not new.exists():
            new.symlink_to(rng.choice(["nowhere", one_file.name, "/dev/zero", "."]))
        elif kind == "folder" and not new.exists():
            new.mkdir()
            return
        elif kind == "swap":
            first, second = one_file.read_bytes(), other.read_bytes()
            one_file.write_bytes(second)
            other.write_bytes(first)


def prepare(place, files, mutated, rng):
    for name in files:
        source = INPUTS / name
        if source.is_dir():
            shutil.copytree(source, place / name)
        else:
            shutil.copy(source, place / name)
    if mutated == "rec":
        return mutate_folder(place / "rec", rng)
    if mutated == "rec/":
        mutated = "rec/" + rng.choice(sorted(each.name for each in (INPUTS / "rec").iterdir()))
    (place / mutated).write_bytes(FILES[mutated].mutated(rng))


def run_case(case, rng, folder):
    kind, _ = case
    files, mutated, before, make = KINDS[kind]
    place = folder / "place"
    place.mkdir()
    prepare(place, files, mutated, rng)
    shutil.copy(INPUTS / "good.db", place / "good.db")
    if make is None:
        return serve_progress(place)
    says = [*files, "rec", "sweep.jsonl"]
    for arguments in before:
        wrong = one(arguments, place, says)
        if wrong is not None and arguments[0] == "calibrate":
            return "refused"
    begun = time.monotonic()
    if one([*make, "-o", "o.db"], place, [*says, "made.json"]) is not None:
        return "refused"
    return "carried through" if carry(place, rng, time.monotonic() - begun) else "taken, then refused by a verb"


def make_inputs(root):
    """All files under their names, with the samples cut to what is mutated quickly."""
    root.mkdir()
    for suffix in ("pickle.xz", "trace.json.xz", "about.json"):
        shutil.copy(f"{SAMPLE}.{suffix}", root / f"r.{suffix}")
    shutil.copy(GOLDEN / "llama_tiny.json", root / "config.json")
    (root / "x.safetensors").write_bytes(File(GOLDEN / "two_layers.safetensors.gz").plain)
    shutil.copy(GOLDEN / "two_units.json", root / "workload.json")
    shutil.copy(GOLDEN / "all_gather_perf.txt", root)
    shutil.copy(CORPUS / "topology/node", root / "topology.xml")
    (root / "lists.json").write_text('{"forward": {"": ["layers.0", "layers.1"], "layers.0": ["layers.1"]}, '
                                     '"backward": {"layers.3": ["layers.2"], "layers.2": ["layers.1", "layers.0"]}}')
    (root / "rec").mkdir()
    for rank in (0, 1):
        shutil.copy(GOLDEN / f"rank{rank}.trace.json", root / "rec")
    for arguments in (["import", *RECORDING, "-o", "run.db"], ["plan", *SMALL, "-o", "good.db"],
                      ["sweep", *SMALL, "--batch", "1..3", "--progress", "sweep.jsonl"]):
        outcome = run([OPTIONS.foreshard, *arguments], root)
        if outcome.status != 0:
            raise SystemExit(f"{arguments[0]}: {outcome.err}")
    (root / "machine.json").write_bytes(run([OPTIONS.foreshard, "machines", "h200", "--json"], root).out)
    for path in root.rglob("*"):
        if path.is_file() and path.suffix != ".db":
            FILES[str(path.relative_to(root))] = File(path, str(path.relative_to(root)))


def check_kinds(root):
    """Unmutated, every kind is carried through: else a row would count refusals of a wrong command."""
    for kind, (files, _, before, make) in KINDS.items():
        place = root / "unmutated" / kind.replace(" ", "_")
        place.mkdir(parents=True)
        for name in [*files, "good.db"]:
            (shutil.copytree if (INPUTS / name).is_dir() else shutil.copy)(INPUTS / name, place / name)
        for arguments in [*before, *([] if make is None else [[*make, "-o", "o.db"]])]:
            outcome = run([OPTIONS.foreshard, *arguments], place)
            if outcome.status != 0:
                raise SystemExit(f"{kind}, unmutated: {' '.join(arguments)}: {outcome.status}: {outcome.err}")
        if make is not None and not carry(place, random.Random(1)) and not kind.endswith("alone"):
            raise SystemExit(f"{kind}, unmutated, is not carried through")


if __name__ == "__main__":
    OPTIONS = harness.read_options("inputs")
    FILES = {}
    root = harness.work_folder()
    INPUTS = root / "inputs"
    make_inputs(INPUTS)
    check_kinds(root)
    harness.figure(OPTIONS, "inputs", "mutated inputs", [(kind, n) for kind in KINDS for n in range(COUNT)], run_case)
