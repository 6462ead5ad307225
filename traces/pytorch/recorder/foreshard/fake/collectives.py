"""Collectives that the model issues itself (torch.ops._c10d_functional): tensor, context and sequence parallelism's."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .op import Call
    from .workload import WorkloadWriter

_KINDS = {
    "all_reduce": "all_reduce",
    "all_reduce_": "all_reduce",
    "all_gather_into_tensor": "all_gather",
    "all_gather_into_tensor_out": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "all_to_all_single": "all_to_all",
    "broadcast": "broadcast",
    "broadcast_": "broadcast",
}


def write_collective(call: Call, writer: WorkloadWriter) -> None:
    """Raises RuntimeError for one that a workload has no word for."""
    if call.space != "_c10d_functional":
        return
    if call.short == "wait_tensor":
        writer.wait_collectives()
        return
    kind = _KINDS.get(call.short)
    if kind is None:
        known = ", ".join(sorted(set(_KINDS.values())))
        raise RuntimeError(f"{call.name}: of a model's own collectives a fake recording knows {known}")
    size = max(tensor.numel() * tensor.element_size() for tensor in call.inputs + call.outputs)
    writer.collective(_group(str(call.argument("group_name"))), kind, size, call.name)


def _group(name: str) -> list[object]:
    import torch.distributed as dist
    from torch.distributed.distributed_c10d import _resolve_process_group

    ranks = sorted(dist.get_process_group_ranks(_resolve_process_group(name)))
    stride = ranks[1] - ranks[0] if len(ranks) > 1 else 1
    return [f"model's own, {len(ranks)} ranks {stride} apart", len(ranks), stride]
