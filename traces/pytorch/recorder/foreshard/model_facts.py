"""What a model and its optimizers are, beside their units: checkpointing, compiled modules, optimizer settings."""

from __future__ import annotations

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


def describe_optimizer(optimizer: Any) -> dict[str, Any]:
    """Class, defaults and number of parameters of an optimizer; wrappers (accelerate's) are looked into."""
    while hasattr(optimizer, "optimizer") and hasattr(optimizer.optimizer, "param_groups"):
        optimizer = optimizer.optimizer
    groups = getattr(optimizer, "param_groups", [])
    return {
        "class": type(optimizer).__name__,
        "defaults": {key: _plain(value) for key, value in getattr(optimizer, "defaults", {}).items()},
        "groups": len(groups),
        "parameters": sum(len(group["params"]) for group in groups),
    }


def optimizer_word(facts: dict[str, Any]) -> str | None:
    """foreshard's word for an optimizer, or None for one that it has no rule for. Adam and AdamW allocate the same;
    without `fused` and `foreach` CUDA parameters take the foreach path (torch.optim.optimizer,
    _default_to_fused_or_foreach)."""
    defaults = facts["defaults"]
    if facts["class"] in ("Adam", "AdamW") and not defaults.get("amsgrad"):
        if defaults.get("fused"):
            return "adam-fused"
        return "adam-single" if defaults.get("foreach") is False else "adam"
    if facts["class"] == "SGD" and not defaults.get("momentum"):
        return "sgd"
    return None


def _plain(value: Any) -> Any:
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)
