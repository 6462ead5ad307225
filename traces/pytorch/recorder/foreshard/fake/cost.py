"""What prices an op's kernel from a machine profile: its shape, bytes and access pattern, as
core/kernel/kernel_cost.cpp has them for the ops of model families."""

from __future__ import annotations

from typing import Any

import torch

from .op import Call

_ROW = {
    "native_layer_norm", "native_layer_norm_backward", "_fused_rms_norm", "_fused_rms_norm_backward", "_softmax",
    "_softmax_backward_data", "_log_softmax", "_log_softmax_backward_data", "native_group_norm", "topk", "sort",
    "cumsum", "argmax", "max", "logsumexp",
}  # fmt: skip
_GATHER = {"embedding", "index", "index_select", "gather", "take_along_dim"}
_SCATTER = {
    "embedding_dense_backward", "index_put", "index_put_", "_index_put_impl_", "scatter_add_", "scatter_add",
    "index_add_", "index_add", "scatter", "scatter_",
}  # fmt: skip
_GEMMS = {"mm", "bmm", "addmm", "baddbmm", "_scaled_mm", "_grouped_mm", "addmm_", "baddbmm_"}
_SUMS = {"sum", "mean", "linalg_vector_norm", "amax", "amin", "var", "var_mean", "prod", "any", "all"}


def dtype_word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def kernel_cost(call: Call) -> tuple[str, dict[str, Any]]:
    """Kernel class, and the keys of docs/workload.md that price it."""
    if call.short in _GEMMS:
        return _gemm(call)
    if "_attention" in call.short and call.short.startswith(("_scaled_dot", "_flash", "_efficient", "_cudnn")):
        return _attention(call)
    if "convolution" in call.short:
        return _convolution(call)
    return "memory_bound", _bytes(call)


def _gemm(call: Call) -> tuple[str, dict[str, Any]]:
    matrices = [t for t in call.inputs if t.dim() >= 2]
    a, b = matrices[-2:] if len(matrices) >= 2 else (call.outputs[0], call.outputs[0])
    math = {
        "math": "gemm",
        "math_dtype": _math_dtype(a.dtype),
        "m": a.shape[-2],
        "n": b.shape[-1],
        "k": a.shape[-1],
        "kernel_bytes": sum(_bytes_of(t) for t in (call.outputs[0], a, b)),
    }
    if a.dim() == 3:
        math["math_batch"] = a.shape[0]
    if _unaligned(call.outputs[0], False) or _unaligned(a, True) or _unaligned(b, True):
        math["unaligned"] = True
    return "gemm", math


def _unaligned(t: torch.Tensor, operand: bool) -> bool:
    """kernel_cost.cpp, unaligned."""
    if t.dim() < 2:
        return False
    rows, columns = t.shape[-2:]
    if 1 not in t.stride()[-2:]:  # copied row by row first (prepare_matrix_for_cublas)
        return columns % 8 != 0 and not (operand and columns <= 64)
    by_row = t.stride(-1) == 1 or columns == 1
    extent, lines = (columns, rows) if by_row else (rows, columns)
    leading = extent if lines == 1 else t.stride(-2 if by_row else -1)
    return leading % 8 != 0 and not (operand and extent <= 64)


def _convolution(call: Call) -> tuple[str, dict[str, Any]]:
    """As the matrix product that it is, by the weight's and the output's sizes."""
    backward = "backward" in call.short
    weight = call.args[2] if backward else call.args[1]
    out = call.args[0] if backward else call.outputs[0]
    rows = out.numel() // max(1, out.shape[1])
    n = weight.shape[0]
    k = weight.numel() // max(1, n)
    math = {
        "math": "gemm",
        "math_dtype": _math_dtype(weight.dtype),
        "m": rows * (2 if backward else 1),
        "n": n,
        "k": k,
        "kernel_bytes": sum(_bytes_of(t) for t in call.inputs + call.outputs),
    }
    if n % 8 or (k % 8 and k > 64):  # kernel_cost.cpp, gemm_cost of a forward; not measured of cuDNN
        math["unaligned"] = True
    return "gemm", math


def _attention(call: Call) -> tuple[str, dict[str, Any]]:
    backward = "backward" in call.short
    heads = [t for t in call.inputs if t.dim() == 4]
    q, k = (heads[1], heads[2]) if backward else (heads[0], heads[1])
    return "attention", {
        "math": "attention_backward" if backward else "attention_forward",
        "math_dtype": _math_dtype(q.dtype),
        "math_batch": q.shape[0] * q.shape[1],
        "m": q.shape[2],
        "n": k.shape[2],
        "k": q.shape[3],
        "causal": bool(call.argument("is_causal", False)),
        "kernel_bytes": sum(_bytes_of(t) for t in call.inputs + call.outputs if t.dim() == 4),
    }


def _bytes(call: Call) -> dict[str, Any]:
    outputs = _written(call)
    moved = sum(_bytes_of(t) for t in outputs + call.inputs)
    biggest = max(outputs + call.inputs, key=lambda t: t.numel(), default=None)
    if biggest is None:
        return {"kernel_bytes": moved}
    if call.short in _GATHER:
        rows = outputs[0]
        return _access("gather", rows, 2 * _bytes_of(rows) + _index_bytes(call))
    if call.short in _SCATTER:
        return _access("scatter", _gradient(call), 3 * _bytes_of(_gradient(call)))
    if call.short.startswith("_foreach") or call.short.startswith("_fused_adam"):
        return _access("multi_tensor", biggest, moved)
    if call.short in _SUMS:
        dims = call.argument("dim")
        dims = dims if isinstance(dims, (list, tuple)) else [] if dims is None else [dims]
        last = not dims or any(d in (-1, biggest.dim() - 1) for d in dims)
        return _access("row" if last else "column", biggest, moved)
    if call.short in _ROW:
        return _access("row", call.inputs[0] if call.inputs else biggest, moved)
    if call.short == "cat":
        plain = all(t.is_contiguous() for t in call.inputs)
        return _access("contiguous" if plain else "concatenate", outputs[0], moved)
    if call.short in ("nll_loss_forward", "nll_loss_backward"):
        return {"kernel_bytes": _bytes_of(outputs[0]) + 8 * biggest.shape[0]}
    return _elementwise(outputs, call.inputs, moved)


def _elementwise(outputs: list[torch.Tensor], inputs: list[torch.Tensor], moved: int) -> dict[str, Any]:
    """kernel_cost.cpp, elementwise_math."""
    if not outputs:
        return {"kernel_bytes": moved}
    out = outputs[0]
    access = "contiguous" if _dense(out) else "strided"
    narrowest = out.dtype
    first = None
    for tensor in inputs:
        if tensor is out or tensor.numel() <= 1:
            continue
        if first is not None and first.dtype != tensor.dtype:
            access = "mixed"
        first = tensor if first is None else first
        if tensor.dtype.itemsize < narrowest.itemsize:
            narrowest = tensor.dtype
        upcasts = tensor.dtype.itemsize < out.dtype.itemsize
        if access == "contiguous" and (upcasts or tensor.shape != out.shape or tensor.stride() != out.stride()):
            access = "strided"
    return {"kernel_bytes": moved, "math_dtype": _math_dtype(narrowest), "m": out.numel(), "access": access}


def _access(access: str, tensor: torch.Tensor, moved: int) -> dict[str, Any]:
    return {"kernel_bytes": moved, "math_dtype": _math_dtype(tensor.dtype), "m": tensor.numel(), "access": access}


def _written(call: Call) -> list[torch.Tensor]:
    """The outputs, or what an op in place writes."""
    return call.outputs or ([call.inputs[0]] if call.mutates and call.inputs else [])


def _gradient(call: Call) -> torch.Tensor:
    floating = [t for t in call.inputs if t.dtype.is_floating_point]
    return floating[-1] if floating else call.outputs[0]


def _index_bytes(call: Call) -> int:
    return sum(_bytes_of(t) for t in call.inputs if not t.dtype.is_floating_point)


def _bytes_of(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _dense(tensor: torch.Tensor) -> bool:
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride())) == tensor.numel()


# The file's words (core/base/dtype.hpp).
_WORDS = {"float32", "bfloat16", "float16", "float64", "int64", "int32", "uint8", "bool"}


def _math_dtype(dtype: torch.dtype) -> str:
    word = dtype_word(dtype)
    return word if word in _WORDS else {1: "uint8", 2: "float16", 4: "int32"}.get(dtype.itemsize, "int64")
