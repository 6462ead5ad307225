"""summary.py OUT SCRIPT: medians of step and host times and peaks, by setting; the recorder's beside the plain's."""

import json
import statistics
import sys
from pathlib import Path


def line(name, measured, reserved):
    def median(key):
        return statistics.median(measured[key][2:]) if measured[key][2:] else float("nan")

    print(f"  {name:10} step {median('step_ms'):8.2f} ms  host {median('host_issue_ms'):8.2f} ms  reserved {reserved}")


def main():
    out, script = Path(sys.argv[1]), sys.argv[2]
    for path in sorted(out.glob(f"{script}.*.json")):
        measured = json.loads(path.read_text())
        reserved = measured["memory_steps"][-1]["reserved_bytes.all.peak"] / 2**20
        line(path.name.split(".")[1], measured, f"{reserved:.0f} MiB")
    path = out / f"{script}.rec/rank00000/rank.json"
    if path.exists():
        rank = json.loads(path.read_text())
        if rank["measured"]:
            line("recorder", rank["measured"], "-")
        print("  recorded   host " + " ".join(f"{ms:.2f}" for ms in rank["recorded"]["host_issue_ms"]) + " ms")
        for problem in rank["problems"]:
            print(f"  problem: {problem}")


main()
