"""Where PyTorch's C++ takes another way because a dispatch mode is on, and back to the way that training takes.

Under a mode every tensor counts as "subclass-like" (aten/src/ATen/TensorSubclassLikeUtils.h), for which autograd avoids
ops in place: it adds gradients into a fresh tensor where it would add into one of them
(torch/csrc/autograd/input_buffer.cpp, can_accumulate_inplace), and some backward formulas scatter into a copy of zeros
(torch/csrc/autograd/FunctionsManual.cpp).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

# Formulas of FunctionsManual.cpp: functional for subclasses, in place on fresh zeros otherwise.
_ON_FRESH_ZEROS = {
    "aten::scatter_add": torch.ops.aten.scatter_add_.default,
    "aten::index_add": torch.ops.aten.index_add_.default,
    "aten::index_put": torch.ops.aten.index_put_.default,
    "aten::_index_put_impl": torch.ops.aten._index_put_impl_.default,
}


# Files whose frames lie between C++ and this one: the mode's own, and wrappers that PyTorch puts around it.
_TORCH = str(Path(torch.__file__).parent)
_BETWEEN = (str(Path(__file__).parent), *(f"{_TORCH}/{name}" for name in ("utils/", "_compile", "_dynamo/", "_ops")))


class InPlaceRules:
    def __init__(self) -> None:
        self._references: int | None = None
        self._measuring = False

    def calibrate(self) -> None:
        """Counts the references that the engine's sum finds on a gradient that nobody else holds. Inside the mode."""
        self._measuring = True
        x = torch.ones(4, device="cuda", requires_grad=True) * 2
        torch.autograd.backward((x * x).sum())
        self._measuring = False
        if self._references is None:
            raise RuntimeError(f"autograd's sums of gradients are not recognised in PyTorch {torch.__version__}")

    def replaced(self, func: Any, args: Any, kwargs: Any, backward: bool) -> Any:
        """The op that training runs where `func` is dispatched."""
        if not (backward or self._measuring) or torch.is_grad_enabled() or not _called_by_engine():
            return func
        if func is torch.ops.aten.add.Tensor and not kwargs and len(args) == 2:
            return self._sum(func, *args)
        in_place = _ON_FRESH_ZEROS.get(func._schema.name)
        if in_place is not None and not args[0]._is_view() and not args[0].requires_grad:
            return in_place
        return func

    def _sum(self, func: Any, older: Any, newer: Any) -> Any:
        if not isinstance(older, torch.Tensor) or not isinstance(newer, torch.Tensor) or older.shape != newer.shape:
            return func
        references = older._use_count()
        if self._measuring:
            self._references = references
        alone = self._references is not None and references <= self._references and not older._is_view()
        return torch.ops.aten.add_.Tensor if alone else func


def _called_by_engine() -> bool:
    """Whether C++ called the op: the Python frame below the mode's is the one that started the engine, or a hook of
    the engine's is not on the way."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_BETWEEN):
        frame = frame.f_back  # type: ignore[assignment]
    return frame is not None and frame.f_code.co_name == "_engine_run_backward"
