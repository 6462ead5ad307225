#!/usr/bin/env python3
"""Damaged run stores against every verb that reads one.

One bit flipped, bytes or pages zeroed, swapped or cut off, and single cells given other values by another SQLite
client, or of a plan's or an import's answers (table `result`) other JSON. Each is read by three verbs, drawn from all of them. No crash, no internal error, no verb without an end; a
refusal has a documented exit code and one line that names the store. Where the program verifies a store's contents on
opening, no answer may differ from that of the undamaged store; with --unverified other answers are counted.
"""
import json
import shutil
import sqlite3

import harness
import pages
from harness import Failure, contents, refused, run
from mutate import mutate

FLIPS, PAGES, CELLS = 1000, 300, 1200
PAGE = 4096
VERBS = {
    "explain": ["explain", "run.db"],
    "explain --time": ["explain", "run.db", "--time", "--detail"],
    "plan": ["plan", "run.db", "--detail"],
    "sweep": ["sweep", "run.db", "--forward-prefetch", "implicit,1", "--jobs", "1"],
    "compare": ["compare", "run.db", "good.db", "--json"],
    "compare, as B": ["compare", "good.db", "run.db", "-o", "o.html"],
    "query": ["query", "run.db", "SELECT * FROM memory_timeline", "--csv"],
    "query, a view": ["query", "run.db", "SELECT * FROM slices", "--json"],
    "view html": ["view", "run.db", "-o", "o.html"],
    "view svg": ["view", "run.db", "-o", "o.svg", "--step", "all"],
    "view svg by module": ["view", "run.db", "-o", "o.svg", "--by", "module"],
    "serve": None,
}
VERBS |= {f"export {kind}": ["export", "run.db", "--format", kind, "-o", "o.out"]
          for kind in ("perfetto", "chrome", "snapshot", "dot", "csv", "chakra")}
REFUSED = harness.REFUSALS | {13}


def flip(data, rng):
    at = rng.randrange(len(data))
    data[at] ^= 1 << rng.randrange(8)


def damage_pages(data, rng):
    count = len(data) // PAGE
    a, b = rng.randrange(count) * PAGE, rng.randrange(count) * PAGE
    kind = rng.choice(["zero", "swap", "cut", "noise", "repeat", "tail"])
    if kind == "zero":
        data[a:a + PAGE] = bytes(PAGE)
    elif kind == "swap":
        data[a:a + PAGE], data[b:b + PAGE] = data[b:b + PAGE], data[a:a + PAGE]
    elif kind == "cut":
        del data[rng.randrange(len(data)):]
    elif kind == "noise":
        start = rng.randrange(len(data))
        data[start:start + 64] = rng.randbytes(len(data[start:start + 64]))
    elif kind == "repeat":
        data[a:a + PAGE] = data[b:b + PAGE]
    else:
        size = min(len(data), 2 * PAGE)
        data[-size:] = bytes(size)


def other_values(value, rng):
    out = [0, 1, -1, 2**31, 2**53, 2**63 - 1, -2**63, None, "", "x" * 100000, "\x1b[31m<script>alert(1)</script>",
           "\ud7ff\u0000z", 1e308, -0.5]
    if isinstance(value, int):
        out += [max(min(n, 2**63 - 1), -2**63) for n in (value + 1, value - 1, -value, value * 1000, value + 10**6)] * 2
    return rng.choice(out)


def change_answer(store, rng):
    """Of a random answer that is an object or a list something within."""
    answers = [(key, json.loads(text)) for key, text in store.execute("SELECT key, value FROM result ORDER BY key")
               if text[:1] in "[{" and len(text) > 2]
    if not answers:
        return None
    key, value = rng.choice(answers)
    before = json.dumps(value)
    mutate(value, rng)
    after = json.dumps(value)
    store.execute("UPDATE result SET value=? WHERE key=?", [after, key])
    return f"result.{key}: {before[:60]!r} -> {after[:60]!r}" if after != before else None


def change_cell(path, rng):
    """What was changed, or None where the value does not fit its column."""
    store = sqlite3.connect(path, isolation_level=None)
    try:
        store.execute("PRAGMA ignore_check_constraints=ON")
        if rng.random() < 0.3:
            return change_answer(store, rng)
        tables = [row[0] for row in store.execute("SELECT name FROM sqlite_schema WHERE type='table' ORDER BY name")]
        filled = [t for t in tables if store.execute(f"SELECT count(*) FROM {t}").fetchone()[0]]
        table = rng.choice(filled)
        columns = [row[1] for row in store.execute(f"PRAGMA table_info({table})")]
        count = store.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        key = store.execute(f"SELECT rowid FROM {table} LIMIT 1 OFFSET ?", [rng.randrange(count)]).fetchone()[0]
        column = rng.choice(columns)
        before = store.execute(f"SELECT {column} FROM {table} WHERE rowid=?", [key]).fetchone()[0]
        for _ in range(10):
            value = other_values(before, rng)
            try:
                if value != before:
                    store.execute(f"UPDATE {table} SET {column}=? WHERE rowid=?", [value, key])
                    return f"{table}.{column}[{key}]: {str(before)[:60]!r} -> {str(value)[:60]!r}"
            except (sqlite3.Error, UnicodeEncodeError):
                continue
        return None
    finally:
        store.close()


def answer_of(verb, place, unverified):
    """(outcome that is not an answer, answer): what it prints and what it writes, or a visit of its page."""
    more = ["--unverified"] if unverified else []
    if VERBS[verb] is None:
        return pages.visit(OPTIONS.foreshard, "run.db", place, more)
    outcome = run([OPTIONS.foreshard, *VERBS[verb], *more], place, seconds=60, memory=2 << 30)
    if outcome.status != 0:
        return outcome, None
    written = [contents(place / name) for name in ("o.html", "o.svg", "o.out")]
    return None, (outcome.out, written)


def prepare(base, place):
    place.mkdir(parents=True, exist_ok=True)
    shutil.copy(base, place / "run.db")
    shutil.copy(BASES["plan.db"], place / "good.db")


def judge(verb, place, base, unverified, what):
    wrong, answer = answer_of(verb, place, unverified)
    if wrong is not None:
        if wrong.err.startswith("usage:"):
            raise Failure(wrong.err)
        refused(wrong, codes=REFUSED, says=["run.db"])
        return "refused"
    if VERBS[verb] is None and any(status >= 500 for status, _ in answer):
        raise Failure(f"serve answers {[status for status, _ in answer]}")
    if answer == GOOD[base.name, verb]:
        return "the same answer"
    if VERIFIES and not unverified:
        raise Failure("another answer, with exit 0")
    return "another answer"


def run_case(case, rng, folder):
    row, base, how, unverified = case
    place = folder / "place"
    prepare(base, place)
    what = how
    if how == "cell":
        what = change_cell(place / "run.db", rng)
        if what is None:
            return "not taken by SQLite"
    else:
        data = bytearray((place / "run.db").read_bytes())
        (flip if how == "flip" else damage_pages)(data, rng)
        (place / "run.db").write_bytes(data)
    kinds = []
    for verb in rng.sample(sorted(VERBS), 3):
        try:
            kinds.append(judge(verb, place, base, unverified, what))
        except Failure as failure:
            raise Failure(f"{what}: {verb}: {failure}") from None
        for name in ("o.html", "o.svg"):
            (place / name).unlink(missing_ok=True)
        shutil.rmtree(place / "o.out", ignore_errors=True)
        if (place / "o.out").exists():
            (place / "o.out").unlink()
    return "another answer" if "another answer" in kinds else "refused" if "refused" in kinds else "the same answers"


def good_answers(root):
    for name, base in BASES.items():
        for verb in VERBS:
            place = root / "good" / name / verb.replace(" ", "_")
            prepare(base, place)
            wrong, answer = answer_of(verb, place, False)
            if wrong is not None:
                raise SystemExit(f"{verb} of an undamaged store: {wrong.status}: {wrong.err}")
            GOOD[base.name, verb] = answer


def make_cases():
    cases = []
    for unverified in (False, True) if VERIFIES else (False,):
        more = ", --unverified" if unverified else ""
        for how, row, count in (("flip", "one bit flipped", FLIPS), ("page", "bytes and pages", PAGES),
                                ("cell", "one cell changed", CELLS)):
            cases += [(row + more, BASES[sorted(BASES)[n % len(BASES)]], how, unverified) for n in range(count)]
    return cases


def make_bases(root):
    sample = harness.SAMPLES / "mlp_implicit"
    commands = {
        "run.db": ["import", "--snapshot", f"{sample}.pickle.xz", "--trace", f"{sample}.trace.json.xz", "--about",
                   f"{sample}.about.json"],
        "plan.db": ["plan", "mlp", "--dim", "64", "--layers", "2"],
        "ranks.db": ["plan", "llama-tiny", "--layers", "2", "--dim", "256", "--gpus", "4", "--batch", "1", "--seq", "64",
                     "--param-dtype", "bfloat16", "--rank-seq", "1=128", "--rank-gemm", "2=64x64x64*2"],
    }
    for name, arguments in commands.items():
        BASES[name] = root / name
        outcome = run([OPTIONS.foreshard, *arguments, "-o", root / name], root)
        if outcome.status != 0:
            raise SystemExit(outcome.err)


if __name__ == "__main__":
    OPTIONS = harness.read_options("stores")
    BASES, GOOD = {}, {}
    root = harness.work_folder()
    VERIFIES = b"--unverified" in run([OPTIONS.foreshard, "explain", "--help"], root).out
    make_bases(root)
    good_answers(root)
    harness.figure(OPTIONS, "stores", "damaged stores", make_cases(), run_case)
