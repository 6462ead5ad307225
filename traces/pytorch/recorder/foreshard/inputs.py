"""What goes into a root module's forward, and how often, while steps are recorded, and which forwards are trained on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .guard import Guard
from .units import reduces_gradients


class InputWatch:
    """Notes the shapes of the tensors of each forward of `root` with gradients, in a pre-forward hook before FSDP2's,
    and whether a backward came to its outputs: one without is an evaluation. Where no output needs a gradient that
    this finds, `backward` stays None: not known."""

    def __init__(self, root: Any, guard: Guard) -> None:
        self._root = root
        self._guard = guard
        self._step: list[dict[str, Any]] = []
        self.steps: list[list[dict[str, Any]]] = []
        self._handles: list[Any] = []
        if _is_compiled(root):
            guard.note("the root module is compiled: batch and sequence length are not read")
        else:
            self._handles.append(root.register_forward_pre_hook(self._before_forward, prepend=True, with_kwargs=True))
            self._handles.append(root.register_forward_hook(self._after_forward))

    def end_step(self) -> None:
        self.steps.append(self._step)
        self._step = []

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _before_forward(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._guard.run("inputs of the model", lambda: self._note(args, kwargs))

    def _note(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        import torch

        if not torch.is_grad_enabled():
            return  # an evaluation
        named = [(str(i), value) for i, value in enumerate(args)] + list(kwargs.items())
        tensors = [
            {"name": name, "shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch.")}
            for name, value in named
            if isinstance(value, torch.Tensor)
        ]
        self._step.append({"tensors": tensors, "reduces": reduces_gradients(self._root), "backward": None})

    def _after_forward(self, module: Any, args: tuple[Any, ...], output: Any) -> None:
        self._guard.run("outputs of the model", lambda: self._watch_backward(output))

    def _watch_backward(self, output: Any) -> None:
        import torch

        if not torch.is_grad_enabled() or not self._step:
            return
        forward = self._step[-1]

        def seen(gradient: Any) -> None:
            forward["backward"] = True

        for tensor in _tensors_in(output):
            if tensor.requires_grad:
                forward["backward"] = forward["backward"] or False
                tensor.register_hook(seen)


def batch_and_length(forwards: list[dict[str, Any]]) -> tuple[int | None, int | None]:
    """Batch and sequence length of the largest of these forwards: the first two sizes of its token ids (whole numbers
    in two dimensions), else of its first tensor, whose second size is a length only in three dimensions: those of images
    and videos are channels or frames."""
    best: tuple[int | None, int | None] = (None, None)
    for forward in forwards:
        size = _batch_and_length(forward["tensors"])
        if (size[0] or 0) * (size[1] or 1) > (best[0] or 0) * (best[1] or 1):
            best = size
    return best


def _batch_and_length(tensors: list[dict[str, Any]]) -> tuple[int | None, int | None]:
    tokens = [t for t in tensors if t["dtype"].startswith(("int", "uint")) and len(t["shape"]) == 2]
    if tokens:
        first = next((t for t in tokens if t["name"] == "input_ids"), tokens[0])
        return first["shape"][0], first["shape"][1]
    for tensor in tensors:
        if tensor["shape"]:
            return tensor["shape"][0], tensor["shape"][1] if len(tensor["shape"]) == 3 else None
    return None, None


def _tensors_in(output: Any, depth: int = 4) -> Iterator[Any]:
    """The tensors of an output: itself, or in tuples, lists, dicts and what is like one (transformers' ModelOutput)."""
    import torch

    if isinstance(output, torch.Tensor):
        yield output
    elif depth > 0:
        in_order = isinstance(output, (tuple, list))
        for value in output if in_order else output.values() if hasattr(output, "values") else ():
            yield from _tensors_in(value, depth - 1)


def _is_compiled(module: Any) -> bool:
    """module.compile() sets nn.Module._compiled_call_impl; a hook added later would be traced into its graph."""
    return getattr(module, "_compiled_call_impl", None) is not None
