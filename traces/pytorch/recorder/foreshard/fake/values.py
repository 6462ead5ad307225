"""Whole numbers and booleans that the host has put on the GPU keep their values: scripts branch on them (is there
padding, where do images go), and sizes follow from them."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

_MAX_ELEMENTS = 1 << 22
# Their results take only the shape of what they are given.
_OF_SHAPE = ("ones_like", "zeros_like", "full_like", "new_ones", "new_zeros", "new_full")


class Values:
    """Real tensors on the CPU beside fake ones, as far as an op's inputs are known."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], torch.Tensor]] = {}  # by id of the fake tensor
        self._unlikely: dict[int, weakref.ref[Any]] = {}

    def of(self, tensor: Any) -> torch.Tensor | None:
        found = self._known.get(id(tensor))
        return found[1] if found is not None and found[0]() is tensor else None

    def guess(self, tensor: torch.Tensor) -> bool | int | float:
        """Of a number that is not known: 1, but no for any() (of NaNs, of padding), so that most loops go on."""
        if tensor.dtype == torch.bool:
            return id(tensor) not in self._unlikely
        return 1.0 if tensor.dtype.is_floating_point else 1

    def follow(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        """After `func` has made `out`: the same on the values, where all inputs have them."""
        if func._schema.is_mutable:
            for tensor in _on_gpu((args, kwargs)):
                if not _is_whole(tensor):
                    return
                self._known.pop(id(tensor), None)  # rare: masks that are written in place are not followed
            return
        outputs = tree_flatten(out)[0]
        if not all(isinstance(t, torch.Tensor) and _is_whole(t) for t in outputs) or not outputs:
            return
        if func._schema.name == "aten::any":
            for tensor in outputs:
                self._say_no(tensor)
        if torch.Tag.nondeterministic_seeded in func.tags or func._schema.name.startswith("aten::empty"):
            return
        for fake, real in zip(outputs, tree_flatten(self.computed(func, args, kwargs))[0]):
            if isinstance(real, torch.Tensor):
                self._keep(fake, real)

    def _say_no(self, tensor: torch.Tensor) -> None:
        key = id(tensor)
        self._unlikely[key] = weakref.ref(tensor, lambda _: self._unlikely.pop(key, None))

    def computed(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The op's result on the CPU; None where an input is not known."""
        if func._schema.name.removeprefix("aten::") in _OF_SHAPE:
            args = (torch.empty(args[0].shape, dtype=args[0].dtype), *args[1:])
        if any(self.of(tensor) is None for tensor in _on_gpu((args, kwargs))):
            return None
        try:
            return func(*tree_map(self._real, args), **tree_map(self._real, kwargs))
        except (RuntimeError, TypeError, ValueError, IndexError):  # what has no kernel on the CPU is not known
            return None

    def _real(self, value: Any) -> Any:
        if isinstance(value, torch.device):
            return torch.device("cpu")
        known = self.of(value) if isinstance(value, torch.Tensor) else None
        return value if known is None else known

    def _keep(self, fake: torch.Tensor, real: torch.Tensor) -> None:
        if fake.device.type == "cuda" and fake.shape == real.shape:
            key = id(fake)
            self._known[key] = (weakref.ref(fake, lambda _: self._known.pop(key, None)), real)


def _is_whole(tensor: torch.Tensor) -> bool:
    kind = tensor.dtype
    return not kind.is_floating_point and not kind.is_complex and tensor.numel() <= _MAX_ELEMENTS


def _on_gpu(values: Any) -> list[torch.Tensor]:
    return [v for v in tree_flatten(values)[0] if isinstance(v, torch.Tensor) and v.device.type == "cuda"]
