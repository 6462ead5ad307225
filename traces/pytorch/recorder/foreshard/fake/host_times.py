"""What it costs the host to issue an op, by its kind: "/host/calls" of the profile h200 (sim/machine/profiles), whose
numbers the model families take for that GPU. A workload file has times and no kinds."""

from __future__ import annotations

from .op import Call

# Nanoseconds: in forward, on autograd's thread.
_OF_KIND = {
    "view": (8_100, 7_000),
    "elementwise": (14_000, 8_800),
    "reduction": (29_400, 8_800),
    "gemm": (23_500, 8_100),
    "attention": (62_500, 11_000),
    "embedding": (33_100, 8_800),
    "random": (29_400, 29_400),
}
MODULE = 3_700
ACCUMULATE_GRAD = 6_500
ZERO_GRAD = 3_900  # a parameter
OF_HOOK = {
    "microbatch_begin": 257_000,
    "pre_forward": 352_000,
    "post_forward": 79_600,
    "pre_backward": 322_000,
    "post_backward": 69_600,
    "backward_final": 845_000,
}
FORWARD_ROOT = 446_000

_REDUCTIONS = ("sum", "mean", "var", "norm", "softmax", "nll_loss", "amax", "amin", "logsumexp", "topk", "sort")
_GEMMS = ("mm", "bmm", "addmm", "baddbmm", "_scaled_mm", "_grouped_mm", "convolution")
_RANDOM = ("rand", "normal", "uniform", "bernoulli", "dropout", "multinomial")


def host_ns(call: Call, launches: bool) -> int:
    kind = "view" if not launches else _kind(call.short)
    forward, backward = _OF_KIND[kind]
    return backward if call.backward else forward


def _kind(name: str) -> str:
    if name in _GEMMS or name.startswith("convolution"):
        return "gemm"
    if "_attention" in name:
        return "attention"
    if name == "embedding":
        return "embedding"
    if any(word in name for word in _RANDOM):
        return "random"
    if any(word in name for word in _REDUCTIONS):
        return "reduction"
    return "elementwise"
