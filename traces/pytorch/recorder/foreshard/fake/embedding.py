"""embedding's backward on CUDA (ATen/native/cuda/Embedding.cu, EmbeddingBackwardKernel.cu, CUB's temporary storage):
core/models/embedding_ops.cpp, in Python."""

from __future__ import annotations

from .cost import kernel_cost
from .op import Call
from .workload import Block, WorkloadWriter

_SORT_ABOVE = 3072  # indices; fewer are added feature by feature
_ROWS_PER_THREAD = 10  # NROWS_PER_THREAD
_ALIGNMENT = 256
_RADIX_PASSES, _RADIX_DIGITS = 8, 256
_SORT_TILE = 5632  # DeviceRadixSort onesweep, 8-byte keys and values, sm90
_SCAN_WORKSPACE = 1279
_INDEX = 8


def embedding_backward(call: Call, writer: WorkloadWriter, allocate: object) -> None:
    gradient, indices = call.inputs[0], call.inputs[1]
    copy = None if gradient.is_contiguous() else writer.alloc(gradient.numel() * gradient.element_size())
    n = indices.numel()
    if n <= _SORT_ABOVE:
        out = allocate(call.new[0])  # type: ignore[operator]
        _helper(writer, "aten::zero_", out.bytes)
        kernel_class, keys = kernel_cost(call)
        writer.kernel("embedding_backward_feature_kernel", kernel_class, **keys)
    else:
        _by_segments(call, writer, allocate, n)
    if copy is not None:
        writer.free(copy)


def _by_segments(call: Call, writer: WorkloadWriter, allocate: object, n: int) -> None:
    """Sorted, then partial sums by segment (embedding_backward_cuda_kernel)."""
    gradient = call.inputs[0]
    vocabulary, width = call.new[0].shape
    ids = n * _INDEX
    held: list[Block] = [writer.alloc(ids), writer.alloc(ids)]
    arange = writer.alloc(ids)
    _helper(writer, "aten::arange", ids)
    sort = writer.alloc(_sort_workspace(n))
    for _ in range(_RADIX_PASSES + 2):
        _helper(writer, "cub::DeviceRadixSort", 4 * ids)
    writer.free(sort)
    writer.free(arange)
    out = allocate(call.new[0])  # type: ignore[operator]
    _helper(writer, "aten::zero_", out.bytes)
    held += [writer.alloc(ids), writer.alloc(_INDEX)]
    _with_scratch(writer, [ids, _SCAN_WORKSPACE], [("cub::UniqueByKey", 3 * ids), ("cub::UniqueByKey", ids)])
    held.append(writer.alloc(ids))
    _helper(writer, "krn_partials_per_segment", 2 * ids)
    held.append(writer.alloc(ids))
    _with_scratch(writer, [_SCAN_WORKSPACE], [("cub::DeviceScan", ids), ("cub::DeviceScan", 2 * ids)])
    held.append(writer.alloc(_INDEX))
    _helper(writer, "compute_num_of_partial_segments", _ALIGNMENT)
    most = n // _ROWS_PER_THREAD + min(n, vocabulary)
    held.append(writer.alloc(most * _INDEX))
    _helper(writer, "krn_partial_segment_offset", 3 * ids)
    held.append(writer.alloc(most * width * 4))
    item = gradient.element_size()
    half = {"m": n * width // 2, "access": "scatter", "math_dtype": "bfloat16" if item == 2 else "float32"}
    moved = gradient.numel() * item
    writer.kernel("compute_grad_weight", "memory_bound", kernel_bytes=moved + n * width * 4, **half)
    writer.kernel("sum_and_scatter", "memory_bound", kernel_bytes=n * width * (4 + item), **half)
    for block in reversed(held):
        writer.free(block)


def _with_scratch(writer: WorkloadWriter, sizes: list[int], kernels: list[tuple[str, int]]) -> None:
    blocks = [writer.alloc(size) for size in sizes]
    for label, moved in kernels:
        _helper(writer, label, moved)
    for block in reversed(blocks):
        writer.free(block)


def _sort_workspace(n: int) -> int:
    tiles = -(-n // _SORT_TILE)
    parts = (_RADIX_PASSES * _RADIX_DIGITS * 8, n * 8, n * 8, tiles * _RADIX_DIGITS * 4, _RADIX_PASSES * 4)
    return sum(-(-part // _ALIGNMENT) * _ALIGNMENT for part in parts) + _ALIGNMENT - 1


def _helper(writer: WorkloadWriter, label: str, moved: int) -> None:
    writer.kernel(label, "memory_bound", kernel_bytes=moved)
