"""What a model and its optimizers are, beside their units: checkpointing, compiled modules, optimizer settings."""

from __future__ import annotations

import inspect
from typing import Any


def describe_model(root: Any) -> dict[str, Any]:
    """Names of the modules that are checkpointed and compiled, relative to the root, and Hugging Face's config."""
    checkpointed: list[str] = []
    selective: list[str] = []
    compiled: list[str] = []
    for name, module in root.named_modules():
        if _is_a(module, "OptimizedModule") or getattr(module, "_compiled_call_impl", None) is not None:
            compiled.append(name)
        # torch.distributed.algorithms._checkpoint.checkpoint_wrapper.CheckpointWrapper, which keeps what
        # torch.utils.checkpoint is called with in checkpoint_fn, a functools.partial.
        if _is_a(module, "CheckpointWrapper"):
            keywords = getattr(getattr(module, "checkpoint_fn", None), "keywords", None) or {}
            (selective if "context_fn" in keywords else checkpointed).append(name)
        # transformers' GradientCheckpointingLayer, or a model's own list of layers before it.
        elif getattr(module, "gradient_checkpointing", False) is True:
            checkpointed.append(name)
    config = getattr(root, "config", None)
    return {
        "class": type(root).__mro__[2].__name__ if len(type(root).__mro__) > 2 else type(root).__name__,
        "checkpointed": checkpointed,
        "checkpointed_selectively": selective,
        "compiled": compiled,
        "config": config.to_dict() if hasattr(config, "to_dict") else None,
    }


def _is_a(module: Any, name: str) -> bool:
    """By the class's name: fully_shard puts a class of its own in front, and nothing has to be imported."""
    return any(kind.__name__ == name for kind in type(module).__mro__)


def describe_optimizer(optimizer: Any, parameter_names: dict[int, str] | None = None) -> dict[str, Any]:
    """Class, defaults and number of parameters of an optimizer; wrappers (accelerate's, ZeroRedundancyOptimizer) are
    looked into. `parameter_names`: of the model's parameters by id(); `param_groups` has them, None for a parameter of
    something else. `torch_class` is the class of torch.optim whose step() it runs, None for one of another package, of
    whatever name, and for one that steps by itself."""
    optimizer = _wrapped(optimizer)
    groups = getattr(optimizer, "param_groups", [])
    names = parameter_names or {}
    return {
        "class": type(optimizer).__name__,
        "torch_class": _torch_class(type(optimizer)),
        "defaults": {key: _plain(value) for key, value in getattr(optimizer, "defaults", {}).items()},
        "groups": len(groups),
        "parameters": sum(len(group["params"]) for group in groups),
        "param_groups": [[names.get(id(parameter)) for parameter in group["params"]] for group in groups],
    }


def _wrapped(optimizer: Any) -> Any:
    """What a wrapper keeps as `optimizer` or `optim`."""
    for _ in range(8):  # of one another, and never for ever
        inner = [getattr(optimizer, name, None) for name in ("optimizer", "optim")]
        found = next((one for one in inner if one is not optimizer and hasattr(one, "param_groups")), None)
        if found is None:
            return optimizer
        optimizer = found
    return optimizer


def _torch_class(kind: type) -> str | None:
    """A subclass that leaves step() alone makes its base's requests. torch.optim.Optimizer puts a wrapper around step()
    of the class of the first instance (_patch_step_function): unwrapped, both are one function."""
    for base in kind.__mro__:
        if base.__module__.startswith("torch.optim"):
            same = inspect.unwrap(getattr(kind, "step", None)) is inspect.unwrap(getattr(base, "step", None))
            return base.__name__ if same else None
    return None


def optimizer_word(facts: dict[str, Any]) -> str | None:
    """foreshard's word for an optimizer, or None for one that it has no rule for. Adam and AdamW allocate the same;
    without `fused` and `foreach` CUDA parameters take the foreach path (torch.optim.optimizer,
    _default_to_fused_or_foreach)."""
    defaults = facts["defaults"]
    if facts["torch_class"] in ("Adam", "AdamW") and not defaults.get("amsgrad"):
        if defaults.get("fused"):
            return "adam-fused"
        return "adam-single" if defaults.get("foreach") is False else "adam"
    if facts["torch_class"] == "SGD" and not defaults.get("momentum"):
        return "sgd"
    return None


def _plain(value: Any) -> Any:
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)
