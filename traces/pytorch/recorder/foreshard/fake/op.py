"""One dispatched op with its tensors of the GPU."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch.utils._pytree import tree_flatten


class Call:
    def __init__(self, func: Any, args: Any, kwargs: Any, out: Any, backward: bool) -> None:
        self.func = func
        self.args = args
        self.kwargs = kwargs
        self.out = out
        self.backward = backward
        self.new: list[torch.Tensor] = []  # outputs whose memory the op made
        self.name: str = func._schema.name  # "aten::mm"
        self.space, _, self.short = self.name.partition("::")

    @cached_property
    def inputs(self) -> list[torch.Tensor]:
        return _on_gpu((self.args, self.kwargs))

    @cached_property
    def outputs(self) -> list[torch.Tensor]:
        return _on_gpu(self.out)

    @property
    def mutates(self) -> bool:
        return bool(self.func._schema.is_mutable)

    def argument(self, name: str, default: Any = None) -> Any:
        """By its name in the schema."""
        if name in self.kwargs:
            return self.kwargs[name]
        for index, argument in enumerate(self.func._schema.arguments):
            if argument.name == name:
                return self.args[index] if index < len(self.args) else default
        return default


def _on_gpu(values: Any) -> list[torch.Tensor]:
    return [v for v in tree_flatten(values)[0] if isinstance(v, torch.Tensor) and v.device.type == "cuda"]
