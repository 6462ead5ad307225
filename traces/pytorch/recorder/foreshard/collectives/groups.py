"""The groups that this process has connected, or why one is not served, by process group."""

from __future__ import annotations

import weakref
from typing import Any

from torch.distributed import get_process_group_ranks

from . import rendezvous
from .group import Group

# By name and ranks: the process group that it was for, and the Group or the reason (its text: an exception would keep
# the frames alive that it came through, and the model with them).
_known: dict[tuple[Any, ...], tuple[weakref.ref[Any], Group | str]] = {}
# Of process groups that are gone. Their memory stays: tensors, graphs and PyTorch's allocator may still hold it.
_retired: list[Group] = []


def of(process_group: Any, device: Any) -> Group:
    """One for each process group of a process, also over several models. Collective the first time. Raises
    rendezvous.Unserved, on all ranks."""
    for key, (whose, _) in list(_known.items()):
        if whose() is None:
            _forget(key)
    key = (process_group.group_name, *get_process_group_ranks(process_group))
    if key in _known and _known[key][0]() is not process_group:
        _forget(key)  # it was destroyed and made anew, with the same name
    if key not in _known:
        _known[key] = (weakref.ref(process_group), _made(process_group, device))
    made = _known[key][1]
    if isinstance(made, str):
        raise rendezvous.Unserved(made)
    return made


def connected() -> list[Group]:
    return [made for _, made in _known.values() if not isinstance(made, str)]


def _made(process_group: Any, device: Any) -> Group | str:
    try:
        return Group(process_group, device)
    except rendezvous.Unserved as error:
        return str(error)


def _forget(key: tuple[Any, ...]) -> None:
    _, made = _known.pop(key)
    if not isinstance(made, str):
        made.close()
        _retired.append(made)
