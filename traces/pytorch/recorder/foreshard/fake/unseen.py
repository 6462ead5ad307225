"""What CUDA's kernels allocate beside an op's results, which no dispatch shows: the rules of core/models (whose sources
are PyTorch 2.11's and the reference runs'), for the ops that it knows. docs/record.md lists those that nobody knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .cost import kernel_cost
from .host_times import host_ns
from .op import Call
from .reduction import reduction_workspace
from .workload import Block, WorkloadWriter

_KIB, _MIB = 1 << 10, 1 << 20
_CUBLAS_LT = _MIB  # CUDABlas.cpp, _parseChosenWorkspaceSize (core/models/launches.cpp)
_TILE = (128, 256)  # cuBLAS' usual tiles; with more of them than SMs a counter is set to zero first
_GEMMS = {"mm", "addmm", "bmm", "baddbmm", "addmm_", "baddbmm_"}
# Ops whose kernels take their first arguments contiguous, and copy them where they are not (ATen/native/cuda: Loss.cu,
# SoftMax.cu, layer_norm_kernel.cu).
_WANT_CONTIGUOUS = {
    "_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data", "native_layer_norm",
    "native_layer_norm_backward", "_fused_rms_norm", "_fused_rms_norm_backward", "native_group_norm",
    "nll_loss_forward",
}  # fmt: skip
_WITHOUT_KERNEL = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "detach", "empty_permuted"}
_SUMS = {"sum", "mean"}

Allocate = Callable[..., Block]


class GpuRules:
    """Writes one op as CUDA runs it. Of a GPU with `sm_count` SMs and a compute capability such as (9, 0)."""

    def __init__(self, sm_count: int, capability: tuple[int, int]) -> None:
        self._sm_count = sm_count
        # CUDABlas.cpp, parseChosenWorkspaceSize: 32 MiB on Hopper and later, else 2 × 4 MiB and 8 × 16 KiB.
        self._cublas = 32 * _MIB if capability[0] >= 9 else 8 * _MIB + 128 * _KIB
        self._made: set[tuple[str, bool]] = set()
        self._of_op: dict[str, Callable[[Call, WorkloadWriter, Allocate], None]] = {
            "embedding_dense_backward": self._embedding_backward,
            "_scaled_dot_product_cudnn_attention": self._cudnn,
            "_scaled_dot_product_cudnn_attention_backward": self._cudnn_backward,
            "_scaled_dot_product_flash_attention": self._flash,
            "_scaled_dot_product_flash_attention_backward": self._flash_backward,
            "_scaled_dot_product_efficient_attention": self._efficient,
            "_scaled_dot_product_efficient_attention_backward": self._efficient_backward,
        }

    def write(self, call: Call, writer: WorkloadWriter, allocate: Allocate) -> None:
        launches = bool(call.new or call.mutates) and call.short not in _WITHOUT_KERNEL
        writer.spend(host_ns(call, launches))
        if call.short in _GEMMS:
            self._gemm(call, writer, allocate)
        elif call.short in self._of_op:
            self._of_op[call.short](call, writer, allocate)
        else:
            self._plain(call, writer, allocate, launches)

    def _plain(self, call: Call, writer: WorkloadWriter, allocate: Allocate, launches: bool) -> None:
        copies = []
        if call.short in _WANT_CONTIGUOUS:
            copies = [writer.alloc(_size(t)) for t in call.inputs if not t.is_contiguous()]
        for tensor in call.new:
            allocate(tensor)
        if launches:
            self._launch(call, writer)
        for block in reversed(copies):
            writer.free(block)

    def _launch(self, call: Call, writer: WorkloadWriter) -> None:
        if call.short in ("_to_copy", "copy_") and (direction := _crosses(call)):
            writer.copy(call.name, direction, _size((call.outputs or call.inputs)[0]))
            if direction == "device_to_host" and not call.argument("non_blocking", False):
                writer.synchronize()
            return
        staging, semaphores = self._sum(call)
        blocks = [writer.alloc(size) for size in (staging, semaphores) if size]
        if semaphores:
            _memset(writer, semaphores)
        kernel_class, keys = kernel_cost(call)
        writer.kernel(call.name, kernel_class, **keys)
        for block in reversed(blocks):
            writer.free(block)

    def _sum(self, call: Call) -> tuple[int, int]:
        """Reduce.cuh's global memory, of sums over the first or the last dimensions (core/models/reduction.cpp)."""
        if call.short not in _SUMS or not call.new:
            return 0, 0
        source, out = call.inputs[0], call.new[0]
        dims = call.argument("dim")
        dims = list(range(source.dim())) if not dims else [d % source.dim() for d in dims]
        along = source.dim() - 1 in dims
        return reduction_workspace(out.numel(), source.numel() // max(1, out.numel()), along, self._sm_count)

    def _gemm(self, call: Call, writer: WorkloadWriter, allocate: Allocate) -> None:
        for tensor in call.new:
            allocate(tensor)
        matrices = [t for t in call.inputs if t.dim() >= 2]
        copies = [writer.alloc(_size(t)) for t in matrices if t.dim() == 2 and not _takes_as_is(t)]
        self._workspace("cublas", self._cublas, call, writer)
        if call.short == "addmm" and call.inputs[0].dim() == 1:
            self._workspace("cublasLt", _CUBLAS_LT, call, writer)
        kernel_class, keys = kernel_cost(call)
        tiles = -(-keys["m"] // _TILE[0]) * -(-keys["n"] // _TILE[1])
        if matrices[0].element_size() == 2 and "math_batch" not in keys and tiles > self._sm_count:
            _memset(writer, 4)
        writer.kernel(call.name, kernel_class, **keys)
        for block in reversed(copies):
            writer.free(block)

    def _workspace(self, name: str, size: int, call: Call, writer: WorkloadWriter) -> None:
        """Each thread's first product makes its handle's workspace (CUDABlas.cpp, getCurrentCUDABlasHandle)."""
        if (name, call.backward) not in self._made:
            self._made.add((name, call.backward))
            writer.alloc(size, "workspaces")

    def _cudnn(self, call: Call, writer: WorkloadWriter, allocate: Allocate) -> None:
        """core/models/attention_ops.cpp, run_cudnn_attention: seed and offset first, 256 bytes of workspace last."""
        floating = [t for t in call.new if t.dtype.is_floating_point]
        for tensor in [t for t in call.new if not t.dtype.is_floating_point] + floating:
            allocate(tensor)
        block = writer.alloc(256)
        _memset(writer, 4)
        kernel_class, keys = kernel_cost(call)
        writer.kernel(call.name, kernel_class, **keys)
        writer.free(block)

    def _cudnn_backward(self, call: Call, writer: WorkloadWriter, allocate: Allocate) -> None:
        for tensor in call.new:
            allocate(tensor)
        _memset(writer, 4)
        batch, heads, queries, head_dim, keys, kv_heads, item = _heads(call)
        rows = batch * heads * queries
        expanded = 0 if kv_heads == heads else 2 * batch * heads * keys * head_dim * item
        workspace = rows * head_dim * 4 + expanded + rows * 4 + 256
        self._backward(call, writer, [workspace], "cudnn", "cudnn fmha_reduce_head")

    def _flash(self, call: Call, writer: WorkloadWriter, allocate: Allocate) -> None:
        """flash_api.cpp, mha_fwd: random state of 16 bytes, offset of 8."""
        for tensor in [t for t in call.new if t.dtype.is_floating_point]:
            allocate(tensor)
        numbers = [t for t in call.new if not t.dtype.is_floating_point]
        for tensor, size in zip(numbers, (16, 8)):
            allocate(tensor).op[2] = size
        kernel_class, keys = kernel_cost(call)
        writer.kernel(call.name, kernel_class, **keys)

    def _flash_backward(self, call: Call, writer: WorkloadWriter, allocate: Allocate) -> None:
        """flash_api.cpp, mha_bwd: softmax_d, dq_accum, dk and dv of every query head with grouped heads."""
        for tensor in call.new:
            allocate(tensor)
        batch, heads, queries, head_dim, keys, kv_heads, item = _heads(call)
        rows = _round(queries, 128)
        sizes = [batch * heads * rows * 4, batch * rows * heads * _round(head_dim, 32 if head_dim <= 128 else 64) * 4]
        if kv_heads != heads:
            sizes += [batch * keys * heads * head_dim * item] * 2
        self._backward(call, writer, sizes, "flash", "aten::sum")

    def _backward(self, call: Call, writer: WorkloadWriter, sizes: list[int], name: str, summed: str) -> None:
        """attention_ops.cpp, half_backward: rows' products, the gradients, dq's cast, sums of grouped heads."""
        blocks = [writer.alloc(size) for size in sizes]
        batch, heads, queries, head_dim, keys, kv_heads, item = _heads(call)
        elements = batch * heads * queries * head_dim
        writer.kernel(f"{name} dot_do_o", "memory_bound", kernel_bytes=2 * elements * item, m=elements, access="row",
                      math_dtype="bfloat16")  # fmt: skip
        kernel_class, cost = kernel_cost(call)
        writer.kernel(call.name, kernel_class, **cost)
        writer.kernel(f"{name} convert_dq", "memory_bound", kernel_bytes=elements * (4 + item), m=elements,
                      math_dtype="bfloat16")  # fmt: skip
        if kv_heads != heads:
            for _ in ("dk", "dv"):
                moved = batch * keys * head_dim * item * (heads + kv_heads)
                writer.kernel(summed, "memory_bound", kernel_bytes=moved)
        for block in reversed(blocks):
            writer.free(block)

    def _efficient(self, call: Call, writer: WorkloadWriter, allocate: Allocate) -> None:
        """attention.cu, _efficient_attention_forward: outside CUDA graphs seed and offset lie on the host."""
        for tensor in [t for t in call.new if t.dtype.is_floating_point]:
            allocate(tensor)
        kernel_class, keys = kernel_cost(call)
        writer.kernel(call.name, kernel_class, **keys)

    def _efficient_backward(self, call: Call, writer: WorkloadWriter, allocate: Allocate) -> None:
        """attention_backward.cu, _efficient_attention_backward: the rows' sums of grad_out * out, which the kernel
        makes itself for 16-bit types, and its workspace."""
        for tensor in call.new:
            allocate(tensor)
        batch, heads, queries, head_dim, keys, _, item = _heads(call)
        elements, rows = batch * heads * queries * head_dim, batch * heads * queries
        if item == 2:
            delta = writer.alloc(rows * 4)
        else:
            product = writer.alloc(elements * 4)
            writer.kernel("aten::mul", "memory_bound", kernel_bytes=elements * (2 * item + 4))
            summed = writer.alloc(rows * 4)
            writer.kernel("aten::sum", "memory_bound", kernel_bytes=elements * 4 + rows * 4)
            delta = writer.alloc(rows * 4)
            writer.kernel("aten::copy_", "memory_bound", kernel_bytes=rows * 8)
            writer.free(summed)
            writer.free(product)
        workspace = writer.alloc(batch * heads * efficient_backward_workspace(queries, keys, head_dim, item))
        kernel_class, cost = kernel_cost(call)
        writer.kernel(call.name, kernel_class, **cost)
        writer.free(delta)
        writer.free(workspace)

    def _embedding_backward(self, call: Call, writer: WorkloadWriter, allocate: Allocate) -> None:
        from .embedding import embedding_backward

        embedding_backward(call, writer, allocate)


def efficient_backward_workspace(queries: int, keys: int, head_dim: int, item: int) -> int:
    """Bytes a head (mem_eff_attention/kernel_backward.h, workspace_elements_gq and its like, on 8.0 and later; seen on
    an H200): float32 tiles of dq with 16 bytes of locks each, and dk and dv where registers do not hold them."""
    rows = 64 if head_dim <= 64 else 128
    columns = 128 if item == 2 and 64 < head_dim <= 128 else 64
    tiles = -(-queries // rows) * -(-head_dim // columns)
    outputs = 2 * _round(keys, 64) * _round(head_dim, 128) * 4 if item == 2 and head_dim > 128 else 0
    return tiles * (rows * columns * 4 + 16) + outputs


def _memset(writer: WorkloadWriter, size: int) -> None:
    writer.kernel("Memset", "memset", kernel_bytes=size)


def _crosses(call: Call) -> str | None:
    """Between host and GPU: the kind of copy."""
    source = call.args[1] if call.short == "copy_" else call.args[0]
    target = call.args[0] if call.short == "copy_" else call.out
    if not isinstance(source, torch.Tensor) or source.device.type == target.device.type:
        return None
    return "device_to_host" if target.device.type == "cpu" else "host_to_device"


def _takes_as_is(x: torch.Tensor) -> bool:
    """prepare_matrix_for_cublas (ATen/native/cuda/Blas.cpp): other strides are copied first."""
    (rows, columns), (by_row, by_column) = x.shape, x.stride()
    row_major = (by_column == 1 or columns == 1) and by_row >= max(1, columns)
    return row_major or ((by_row == 1 or rows == 1) and by_column >= max(1, rows))


def _heads(call: Call) -> tuple[int, int, int, int, int, int, int]:
    """Of attention's backward: batch, heads, queries, head dimension, keys, key heads, bytes of an element."""
    q, k = call.args[1], call.args[2]
    return q.shape[0], q.shape[1], q.shape[2], q.shape[3], k.shape[2], k.shape[1], q.element_size()


def _round(value: int, step: int) -> int:
    return -(-value // step) * step


def _size(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
