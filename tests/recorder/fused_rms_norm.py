"""PyTorch 2.11's fused RMSNorm (aten::_fused_rms_norm and its backward) for an older PyTorch, whose nn.RMSNorm runs in
parts: what a fake recording of today's models is compared with was recorded by 2.11."""

import torch
from torch.nn import functional

_NAME = "_fused_rms_norm"
_kept = []  # a library that nobody holds is taken back


def _forward(x, weight):
    statistics = torch.empty((*x.shape[:-1], 1), dtype=torch.float32, device=x.device)
    return torch.empty(x.shape, dtype=x.dtype, device=x.device), statistics


def _backward(gradient, x, rstd, weight):
    return torch.empty(x.shape, dtype=x.dtype, device=x.device), torch.empty_like(weight)


class _FusedRmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        out, rstd = torch.ops.of_pytorch_2_11._fused_rms_norm(x, weight)
        ctx.save_for_backward(x, weight, rstd)
        return out

    @staticmethod
    def backward(ctx, gradient):
        x, weight, rstd = ctx.saved_tensors
        return torch.ops.of_pytorch_2_11._fused_rms_norm_backward(gradient, x, rstd, weight)


def install():
    """F.rms_norm and with it nn.RMSNorm take it on the GPU; nothing where PyTorch has it."""
    if hasattr(torch.ops.aten, _NAME) or _kept:
        return
    library = torch.library.Library("of_pytorch_2_11", "DEF")
    library.define("_fused_rms_norm(Tensor x, Tensor weight) -> (Tensor, Tensor)")
    library.define("_fused_rms_norm_backward(Tensor gradient, Tensor x, Tensor rstd, Tensor w) -> (Tensor, Tensor)")
    library.impl(_NAME, _forward, "Meta")
    library.impl(_NAME + "_backward", _backward, "Meta")
    in_parts = functional.rms_norm

    def rms_norm(x, shape, weight=None, eps=None):
        if x.device.type != "cuda" or weight is None:
            return in_parts(x, shape, weight, eps)
        return _FusedRmsNorm.apply(x, weight)

    functional.rms_norm = rms_norm
    _kept.append(library)
