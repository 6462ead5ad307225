"""Records FSDP2 training steps for foreshard, opens its run stores, and brings its collectives into a training.

    with foreshard.record("rec/", model, optimizer) as recording:
        for batch in loader:
            train_step(batch)
            recording.step()

`python -m foreshard.record train.py ARGS` does the same for a script as it is. docs/record.md describes what is
written, docs/torch_collectives.md foreshard.collectives. Importing this package imports nothing but the standard
library; torch is imported by what records and by collectives.enable().
"""

from __future__ import annotations

import sqlite3
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import collectives

if TYPE_CHECKING:
    from .fake import FakeRecording
    from .recording import Recording

__version__ = "0.1.0"
__all__ = ["collectives", "open", "record", "record_fake", "record_setup"]


def record(
    folder: str | PathLike[str], model: Any = None, optimizer: Any = None, *, fake: bool = False, **options: Any
) -> Recording | FakeRecording:
    """A context manager that records the steps of a training loop into `folder`; `recording.Recording` has the options.

    Without `model` the root FSDP2 modules are found among all live objects. Never raises into the training loop.
    With `fake` it is record_fake's, which needs `world_size` and no GPU, and writes `folder`/fake.workload.json.
    """
    if fake:
        from .fake import FakeRecording

        return FakeRecording(Path(folder) / "fake.workload.json", model=model, optimizer=optimizer, **options)
    from .recording import Recording

    return Recording(folder, model, optimizer, **options)


def record_fake(path: str | PathLike[str], *, world_size: int, **options: Any) -> FakeRecording:
    """A context manager around a training script that needs no GPU: the model is built, sharded and trained inside it
    on "cuda", in fake tensors and one process of `world_size` ranks, and `path` becomes a workload file that `foreshard
    plan` and `sweep` take. `fake.FakeRecording` has the options. Raises where the script cannot be followed."""
    from .fake import FakeRecording

    return FakeRecording(path, world_size=world_size, **options)


def record_setup(stacks: str = "python", max_entries: int = 1_000_000) -> None:
    """Starts the memory history as soon as CUDA is initialised, so that a recording begun later knows where the
    memory of the set-up came from. Call it before the model is built. Never raises."""
    from .history import start_history

    start_history(stacks, max_entries)


def open(store: str | PathLike[str]) -> sqlite3.Connection:  # noqa: A001 (foreshard.open)
    """A read-only connection to a run store, with `sqlite3.Row` rows (docs/trace_schema.md lists tables and views)."""
    from .store import open_store

    return open_store(store)
