"""Run stores: SQLite files with tables and views (docs/trace_schema.md)."""

from __future__ import annotations

import sqlite3
from os import PathLike
from pathlib import Path
from urllib.parse import quote


def open_store(store: str | PathLike[str]) -> sqlite3.Connection:
    """A read-only connection with sqlite3.Row rows. Raises FileNotFoundError without a file, ValueError for one that
    is no run store."""
    path = Path(store)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file; 'foreshard import' and 'foreshard plan -o' write stores")
    connection = sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro", uri=True)
    try:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if "run" not in tables:
            raise ValueError(f"{path}: this SQLite file is no run store of foreshard: it has no table 'run'")
    except sqlite3.DatabaseError as error:
        connection.close()
        raise ValueError(f"{path}: this is no run store: {error}") from error
    except ValueError:
        connection.close()
        raise
    connection.row_factory = sqlite3.Row
    return connection
