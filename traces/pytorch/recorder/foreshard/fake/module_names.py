"""Which module of the model makes a tensor: the one whose forward runs, and in backward the one whose forward made the
autograd node that runs."""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.modules import module as hooks

# Wrappers' own parts of a module's path: checkpoint_wrapper, torch.compile.
_WRAPPERS = ("_checkpoint_wrapped_module", "_orig_mod")


class ModuleNames:
    """Names are known from `describe(root)` on."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}  # by id of the module
        self._open: list[str | None] = []
        # Autograd numbers its nodes in the order of the forward: from which number on they are of which module.
        self._from: list[int] = []
        self._module: list[str | None] = []

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        before = hooks.register_module_forward_pre_hook(self._enter)
        after = hooks.register_module_forward_hook(self._leave, always_call=True)
        try:
            yield
        finally:
            before.remove()
            after.remove()

    def describe(self, root: Any) -> None:
        for name, module in root.named_modules():
            parts = [part for part in name.split(".") if part not in _WRAPPERS]
            self._names[id(module)] = ".".join(parts)

    def begin_step(self) -> None:
        self._from.clear()
        self._module.clear()

    def now(self) -> str | None:
        """None outside of the model, and in it for what autograd adds."""
        if self._open:
            return self._open[-1]
        node = torch._C._current_autograd_node()
        if node is None:
            return None
        place = bisect.bisect_right(self._from, node._sequence_nr()) - 1
        return self._module[place] if place >= 0 else None

    def _enter(self, module: Any, args: Any) -> None:
        outer = self._open[-1] if self._open else None
        self._open.append(self._names.get(id(module), outer))
        self._mark()

    def _leave(self, module: Any, args: Any, output: Any) -> None:
        if self._open:
            self._open.pop()
        self._mark()

    def _mark(self) -> None:
        self._from.append(torch.autograd._get_sequence_nr())
        self._module.append(self._open[-1] if self._open else None)
