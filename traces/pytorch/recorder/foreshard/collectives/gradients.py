"""Which dtype the gradients of an FSDP2 parameter group have when they are about to be reduced."""

from __future__ import annotations

from typing import Any


def gradient_dtype(param_group: Any) -> Any:
    """Of the gradients that FSDPParamGroup.post_backward will reduce; None where they differ or there are none. Those
    of earlier backwards that were not reduced lie in `unsharded_accumulated_grad`, in the reduce dtype."""
    dtypes = set()
    for parameter in param_group.fsdp_params:
        if not hasattr(parameter, "_unsharded_param"):
            continue
        accumulated = parameter.unsharded_accumulated_grad
        gradient = accumulated if accumulated is not None else parameter.unsharded_param.grad
        if gradient is not None:
            dtypes.add(gradient.dtype)
    return dtypes.pop() if len(dtypes) == 1 else None


def follow(param_group: Any, reduce_scatter: Any) -> None:
    """Tells `reduce_scatter`, in place of the one before it, the dtype before each post_backward of the group; None:
    nobody. FSDP2 asks for the reduction's input by the reduce dtype alone, after it has taken the gradients off the
    parameters. post_backward is wrapped once: others may have wrapped it since."""
    if not hasattr(param_group, "_foreshard_follower"):
        _wrap(param_group)
    param_group._foreshard_follower = reduce_scatter


def _wrap(param_group: Any) -> None:
    post_backward = param_group.post_backward

    def tell_and_reduce(*arguments: Any) -> Any:
        follower = param_group._foreshard_follower
        if follower is not None:
            follower.gradient_dtype = gradient_dtype(param_group)
        return post_backward(*arguments)

    param_group.post_backward = tell_and_reduce
