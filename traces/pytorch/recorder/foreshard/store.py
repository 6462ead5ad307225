"""Run stores: SQLite files with tables and views (docs/trace_schema.md)."""

from __future__ import annotations

import sqlite3
from os import PathLike
from pathlib import Path
from urllib.parse import quote

APPLICATION_ID = int.from_bytes(b"fshd", "big")  # kApplicationId of traces/store
_OLDEST_SQLITE = (3, 37)  # STRICT tables


def open_store(store: str | PathLike[str]) -> sqlite3.Connection:
    """A read-only connection with sqlite3.Row rows. Raises FileNotFoundError without a file, ValueError for one that
    is no run store, RuntimeError where this Python's SQLite is too old to read one."""
    path = Path(store)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; 'foreshard import' and 'foreshard plan -o' write run stores")
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise RuntimeError(f"run stores need SQLite 3.37, this Python has {sqlite3.sqlite_version}")
    connection = sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro", uri=True)
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
    except sqlite3.DatabaseError as error:
        connection.close()
        raise ValueError(f"{path}: this is no run store: {error}") from error
    if application != APPLICATION_ID:
        connection.close()
        raise ValueError(f"{path}: this SQLite file is no run store of foreshard")
    connection.row_factory = sqlite3.Row
    return connection
