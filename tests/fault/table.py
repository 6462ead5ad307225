#!/usr/bin/env python3
"""Writes the tables of docs/reliability.md from result files.

    table.py [--check] [RESULTS]     RESULTS: folder with the JSON files that the figures wrote (tests/fault/results)

--check only says, with exit 1, whether the page has the tables of the files.
"""
import json
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
PAGE = FOLDER.parent.parent / "docs" / "reliability.md"
ORDER = ["kills", "io_errors", "full_disk", "signals", "writers", "stores", "inputs", "server", "sizes"]
BEGIN, END = "<!-- figures:begin -->", "<!-- figures:end -->"


def result_text(row):
    kinds = [f"{count:,} {kind}" for kind, count in sorted(row["classes"].items(), key=lambda item: -item[1])]
    if "failed" in row["classes"]:
        kinds.sort(key=lambda text: not text.endswith(" failed"))
    measures = [f"{what} {value:,g}" for what, value in row["measures"].items()]
    return "; ".join(kinds + measures)


def failed(result):
    return sum(row["classes"].get("failed", 0) for row in result["rows"])


def tables(results):
    lines = []
    for result in results:
        program = f", {result['sanitizer']}" if result["sanitizer"] else ""
        share = "" if result["share"] == 1 else f" --share {result['share']:g}"
        lines += [f"`{result['command']}{share}`: {result['title']}{program}; seed {result['seed']}, {result['date']}, "
                  f"{result['machine']}, {result['seconds']:,.0f} s: **{failed(result):,} failed**", "",
                  "| what | how many | what happened |", "|---|---:|---|"]
        for row in result["rows"]:
            lines.append(f"| {row['what']} | {sum(row['classes'].values()):,} | {result_text(row)} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def wrapped(text):
    """Prose at 120 columns, tables as they are."""
    out = []
    for line in text.split("\n"):
        while len(line) > 120 and not line.startswith("|"):
            cut = line.rfind(" ", 0, 121)
            out.append(line[:cut])
            line = line[cut + 1:]
        out.append(line)
    return "\n".join(out)


def main(arguments):
    check = "--check" in arguments
    folder = pathlib.Path(next((a for a in arguments if a != "--check"), FOLDER / "results"))
    results = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    results.sort(key=lambda r: (ORDER.index(r["figure"]), r["sanitizer"] or ""))
    page = PAGE.read_text()
    head, tail = page.split(BEGIN)[0], page.split(END)[1]
    made = f"{head}{BEGIN}\n{wrapped(tables(results))}{END}{tail}"
    if check:
        if made != page:
            sys.exit("docs/reliability.md does not have the tables of the result files: tests/fault/table.py")
        return
    PAGE.write_text(made)


if __name__ == "__main__":
    main(sys.argv[1:])
