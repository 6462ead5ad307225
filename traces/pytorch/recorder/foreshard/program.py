"""The program that a wheel brings along (./dev wheel): the console script `foreshard`, and python -m foreshard."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# Beside it lies lib/foreshard with the shared libraries that it looks for there.
PROGRAM = Path(__file__).parent / "program" / "bin" / "foreshard"


def main() -> None:
    """Becomes the program, with this process's arguments."""
    if not PROGRAM.is_file():
        sys.exit("foreshard: this is the Python package alone; './dev wheel' packs it with the program")
    os.execv(PROGRAM, ["foreshard", *sys.argv[1:]])
