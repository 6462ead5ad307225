"""Scaled dot product attention without a GPU to ask: the kernel that PyTorch 2.11 chooses on the GPU that is meant.

The rule (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, select_sdp_backend; core/models/attention_ops.cpp): for
16-bit types cuDNN's kernel first on 9.0 and 10.0, flash elsewhere; cuDNN takes head dimensions up to 128 in multiples
of 8 and no mask that wants a gradient, flash up to 256 and no mask. What neither takes goes to the memory-efficient
kernel, which takes no grouped heads; those go to the math fallback.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn import functional

_PREFER_CUDNN = ((9, 0), (10, 0))


class AttentionChoice:
    """While installed, the composite op chooses here for tensors of the GPU, in forward and in recomputation alike: a
    torch function mode is off inside Tensor.backward."""

    def __init__(self, capability: tuple[int, int]) -> None:
        self._capability = capability

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        library = torch.library.Library("aten", "IMPL")
        library.impl("scaled_dot_product_attention", self._attend, "AutogradCUDA")
        try:
            yield
        finally:
            library._destroy()

    def _attend(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        """As at::scaled_dot_product_attention goes on after its choice (transformers/attention.cpp)."""
        aten = torch.ops.aten
        kind = self._choose(query, key, value, attn_mask, is_causal)
        if kind == "math":
            mask = _as_bias(attn_mask, query)
            return aten._scaled_dot_product_attention_math(
                query, key, value, mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
            )[0]
        needs_gradient = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
        if kind == "cudnn":
            mask = _as_bias(attn_mask, query)
            return aten._scaled_dot_product_cudnn_attention(
                query, key, value, mask, needs_gradient, dropout_p, is_causal, scale=scale
            )[0]
        if kind == "efficient":
            mask = _padded(_as_bias(attn_mask, query), query, key)
            return aten._scaled_dot_product_efficient_attention(
                query, key, value, mask, needs_gradient, dropout_p, is_causal, scale=scale
            )[0]
        dimension = query.shape[-1]
        scale = 1 / math.sqrt(dimension) if scale is None else scale
        missing = -dimension % 8
        if missing:
            query, key, value = (functional.pad(t, (0, missing)) for t in (query, key, value))
        out = aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, scale=scale)[0]
        return out[..., :dimension] if missing else out

    def _choose(self, query: Any, key: Any, value: Any, mask: Any, is_causal: bool) -> str:
        head_dim = max(query.shape[-1], value.shape[-1])
        plain = query.dim() == 4 and all(t.stride(-1) == 1 for t in (query, key, value))
        half = query.dtype in (torch.float16, torch.bfloat16)
        grouped = query.dim() == 4 and query.shape[1] != key.shape[1]
        learned = mask is not None and mask.requires_grad and torch.is_grad_enabled()
        cudnn = half and self._capability in _PREFER_CUDNN and not learned
        if plain and cudnn and head_dim <= 128 and head_dim % 8 == 0:
            return "cudnn"
        square = not is_causal or query.shape[-2] == key.shape[-2]
        if plain and half and mask is None and head_dim <= 256 and query.shape[-1] == value.shape[-1] and square:
            return "flash"
        if plain and not grouped and query.dtype != torch.float64:
            return "efficient"
        return "math"


def _as_bias(mask: torch.Tensor | None, query: torch.Tensor) -> torch.Tensor | None:
    """convert_boolean_attn_mask: zeros and minus infinities."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    bias = torch.zeros_like(mask, dtype=query.dtype)
    return bias.masked_fill_(mask.logical_not(), -math.inf)


def _padded(mask: torch.Tensor | None, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor | None:
    """pad_bias<16>: rows in multiples of 16, and a view of them."""
    if mask is None:
        return None
    last = mask.shape[-1]
    if last % 16:
        mask = functional.pad(mask, (0, -last % 16))[..., :last]
    return mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
