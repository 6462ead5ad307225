"""Rows of tests/reference/interval_rows.csv: what a recording says of runs of another process, and what those took.

    interval_rows.py OUT NAME PROGRAM [--foreshard BINARY]

NAME.rec, NAME.plain.json and NAME.noreshard.json lie in OUT (architectures.py and the other scripts of this folder);
PROGRAM is what the rows call it. The recording is imported and planned at each setting.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
from pathlib import Path

SETTINGS = {"plain": [], "noreshard": ["--reshard-after-forward", "false"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("name")
    parser.add_argument("program")
    parser.add_argument("--foreshard", default="build/release/foreshard")
    parsed = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = f"{folder}/run.db"
        call = [parsed.foreshard, "import", str(parsed.out / f"{parsed.name}.rec"), "-o", store]
        subprocess.run(call, check=True, capture_output=True)
        for setting, options in SETTINGS.items():
            call = [parsed.foreshard, "plan", store, "--json", *options]
            plan = json.loads(subprocess.run(call, check=True, capture_output=True).stdout)
            steps = json.loads((parsed.out / f"{parsed.name}.{setting}.json").read_text())["step_ms"]
            interval = plan["interval"]
            print(
                f"recorded,{parsed.program},{parsed.name}_rec,{parsed.name}_{setting},false,"
                f"{interval['moved_below']:.3f},{interval['moved_above']:.3f},"
                f"{plan['step_ms']:.3f},{statistics.median(steps[2:]):.3f}"
            )


main()
