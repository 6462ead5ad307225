"""foreshard's all-gather and reduce-scatter as FSDP2's `AllGather` and `ReduceScatter`
(torch/distributed/fsdp/_fully_shard/_fsdp_api.py, PyTorch 2.11)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp._fully_shard._fsdp_api import AllGather, ReduceScatter

from .group import Group, reducible

# A slice of a captured reduce-scatter, at most (kMaxSlice, gpu/torch_collectives/replayable_collectives.cpp).
_CAPTURED_SLICE_BYTES = 2 << 30


class StreamWork(dist.Work):
    """What was put on a stream: wait() makes the current stream wait for it."""

    def __init__(self, event: torch.cuda.Event) -> None:
        super().__init__()
        self._event = event

    def wait(self, timeout: Any = None) -> bool:
        torch.cuda.current_stream().wait_event(self._event)
        return True


def _put(group: Group, call: Callable[[int], None], async_op: bool) -> StreamWork | None:
    """On the current stream, as c10d's synchronous collectives are since 2.8, and as FSDP2 expects. On the group's own
    where nobody is to wait now, or where the current one is the legacy default stream, which takes no batches."""
    current = torch.cuda.current_stream(group.device)
    if not async_op and current.cuda_stream != 0:
        call(current.cuda_stream)
        return None
    group.stream.wait_stream(current)
    call(group.stream.cuda_stream)
    event = group.stream.record_event()
    if async_op:
        return StreamWork(event)
    current.wait_event(event)
    return None


class ForeshardAllGather(AllGather):
    """Copy engines alone: no SM. The output lies in the group's symmetric memory, the input is this rank's part."""

    def __init__(self, group: Group, process_group: dist.ProcessGroup, replaced: AllGather) -> None:
        """`replaced`: what stood behind the unit before."""
        self._group, self._process_group = group, process_group
        self.foreshard_replaced = replaced

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return self._group.empty([int(one) for one in size], dtype)

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: dist.ProcessGroup,
        async_op: bool = False,
    ) -> dist.Work | None:
        if reason := self._unserved(output_tensor, group):
            self._group.reasons.say("an all-gather", reason)
            return dist.all_gather_into_tensor(output_tensor, input_tensor, group=group, async_op=async_op)
        return _put(self._group, lambda stream: self._group.all_gather(output_tensor, input_tensor, stream), async_op)

    def _unserved(self, output: torch.Tensor, group: dist.ProcessGroup) -> str | None:
        if group is not self._process_group:
            return "its group is another one (reshard_after_forward to a smaller mesh)"
        if not self._group.contains(output):
            return "its output is not in symmetric memory"
        return None


class ForeshardReduceScatter(ReduceScatter):
    """Sums in float32, in the order of the ranks. `gradient_dtype` is the dtype of the gradients of the reduction that
    is about to begin, where it is known (gradients.py): float32 sums of narrower gradients then take these as they are,
    which are the same sums, and the input is as much smaller."""

    def __init__(
        self,
        group: Group,
        process_group: dist.ProcessGroup,
        replaced: ReduceScatter,
        divide_factor: Callable[[], float | None],
    ) -> None:
        """`replaced`: what stood behind the unit before. `divide_factor`: what set_gradient_divide_factor was given,
        None where nothing."""
        self._group, self._process_group = group, process_group
        self.foreshard_replaced = replaced
        self._divide_factor = divide_factor
        self.gradient_dtype: torch.dtype | None = None
        self._output_numel: int | None = None

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """FSDP2 asks for the input, then for the output (foreach_reduce). The output stays as gradients: it is ordinary
        memory."""
        numel = math.prod(int(one) for one in size)
        if numel == self._output_numel:
            self._output_numel = None
            return torch.empty(tuple(size), dtype=dtype, device=device)
        self._output_numel = numel // self._group.ranks
        narrow = dtype == torch.float32 and self.gradient_dtype in (torch.bfloat16, torch.float16)
        return self._group.empty([int(one) for one in size], self.gradient_dtype if narrow else dtype)

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: dist.ProcessGroup,
        op: Any,
        async_op: bool = False,
    ) -> dist.Work | None:
        scale = self._scale(op)
        if reason := self._unserved(output_tensor, input_tensor, group, scale):
            self._group.reasons.say("a reduce-scatter", reason)
            # to(): a narrow input, which NCCL cannot reduce into a wider output.
            return dist.reduce_scatter_tensor(
                output=output_tensor, input=input_tensor.to(output_tensor.dtype), group=group, op=op, async_op=async_op
            )
        return _put(
            self._group,
            lambda stream: self._group.reduce_scatter(output_tensor, input_tensor, float(scale or 0), stream),
            async_op,
        )

    def _scale(self, op: Any) -> float | None:
        """What the sum is multiplied by (_get_gradient_divide_factors)."""
        if op == dist.ReduceOp.SUM:
            return 1.0
        if op == dist.ReduceOp.AVG:
            return 1.0 / self._group.ranks
        factor = self._divide_factor()
        return 1.0 / factor if op == dist.ReduceOp.PREMUL_SUM and factor else None

    def _unserved(
        self, output: torch.Tensor, source: torch.Tensor, group: dist.ProcessGroup, scale: float | None
    ) -> str | None:
        if scale is None:
            return "its operation is not a sum or an average"
        if group is not self._process_group:
            return "its group is another one"
        if not (reducible(source.dtype) and reducible(output.dtype)):
            return f"its dtype is {source.dtype}"
        if not self._group.contains(source):
            return "its input is not in symmetric memory"
        size = output.numel() * source.element_size()
        if size > _CAPTURED_SLICE_BYTES and torch.cuda.is_current_stream_capturing():
            return f"it is captured and reduces {size} bytes a rank, more than {_CAPTURED_SLICE_BYTES}"
        return None
