"""The files of a recording: each appears whole or not at all."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import re
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

# Packs a snapshot at 100 MB/s or more; level 9 is ten times slower for a fifth less.
_GZIP_LEVEL = 1
# foreshard's reader takes protocol 4; Python 3.14's default is 5.
_PICKLE_PROTOCOL = 4


class Folder:
    """`root`/about.json, and `root`/rankNNNNN/ for the files of one rank."""

    def __init__(self, root: str | PathLike[str], rank: int) -> None:
        self.root = Path(root)
        self.of_rank = self.root / f"rank{rank:05d}"

    def write_about(self, about: dict[str, Any]) -> None:
        self._write(self.root / "about.json", lambda path: _dump_json(path, about))

    def write_rank(self, facts: dict[str, Any]) -> None:
        self._write(self.of_rank / "rank.json", lambda path: _dump_json(path, facts))

    def write_snapshot(self, snapshot: dict[str, Any]) -> None:
        self._write(self.of_rank / "snapshot.pickle.gz", lambda path: _dump_pickle(path, snapshot))

    def write_trace(self, export: Callable[[str], Any]) -> None:
        """`export` writes a Chrome trace to the path it is given; PyTorch packs it when the path ends in .gz."""
        self._write(self.of_rank / "trace.json.gz", lambda path: export(str(path)))

    def _write(self, path: Path, write: Callable[[Path], Any]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        # The ending stays last: export_chrome_trace goes by it.
        part = path.with_name(f".part{os.getpid()}.{path.name}")
        try:
            write(part)
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)


def _dump_json(path: Path, value: dict[str, Any]) -> None:
    text = json.dumps(value, indent=1, default=str)
    # Shapes and times on one line each; a line break is none of a string's characters in JSON.
    text = re.sub(r"\[\n\s*([^\[\]{}\"]*?)\n\s*\]", lambda found: "[" + re.sub(r"\n\s*", " ", found[1]) + "]", text)
    path.write_text(text + "\n", encoding="utf-8")


def _dump_pickle(path: Path, value: dict[str, Any]) -> None:
    with gzip.open(path, "wb", compresslevel=_GZIP_LEVEL) as file:
        pickle.dump(value, file, protocol=_PICKLE_PROTOCOL)
