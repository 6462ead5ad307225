#!/usr/bin/env python3
"""Measures what single kernels of eager PyTorch cost on one GPU, and what issuing them costs the host.

    python3 tools/probe_compute.py --out h200_compute.json [--part gemm|float8|attention|memory|strided|sustained|host|all]

One JSON document: machine, versions, date, and
  gemm       [dtype, use, batch, m, n, k, µs, kernel]    use: forward, dgrad, wgrad as nn.Linear's autograd lays the
             operands out; square, random, bmm, addmm (bias in the epilogue). m × k by k × n.
  float8     {"gemm": [as gemm: torch._scaled_mm with one scale a tensor and a result in bfloat16; forward: e4m3 by e4m3 with
             fast accumulation, dgrad and wgrad: e5m2 by e4m3 without, square and random: as forward],
             "sustained": {model and tokens: [[m, n, k, µs], ...] of its layers' linears after three seconds of them}}
  attention  [dtype, causal, batch, heads, kv_heads, seq, head_dim, forward µs, backward µs, forward kernels, backward kernels]
  memory     [access, op, dtype, elements, bytes, cold µs, hot µs]   access: foreshard's word for the walk; bytes as
             MemoryAccess counts them (each tensor once). cold: tensors not touched for more than the L2's size.
  host       {name: µs of host time for each call}, nothing waiting on the GPU
Kernel times are the profiler's (CUPTI) device durations, gaps not included: the median over the repetitions of the sum of
the kernels that one call launches, memsets included. Operands are random, never zeros. The GPU's settings are left alone.
"""
import argparse, datetime, json, platform, statistics, sys, time

import torch
import torch.nn as nn
import torch.nn.functional as F

DEV = "cuda"
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32, "tf32": torch.float32}


def device_events(prof):
    """The profile's kernels, copies and memsets by start."""
    events = [e for e in prof.profiler.kineto_results.events()
              if str(e.device_type()).endswith("CUDA") and e.duration_ns() > 0 and "Sync" not in e.name()]
    return sorted(events, key=lambda e: e.start_ns())


def traced(cases, reps):
    """Runs every case `reps` times in one profile; a spin kernel marks the start of each call. Per case a list (one
    entry a call) of lists of (kernel name, ns)."""
    out = []
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as prof:
        for case in cases:
            for _ in range(reps):
                torch.cuda._sleep(20000)
                case()
        torch.cuda._sleep(20000)
        torch.cuda.synchronize()
    events = device_events(prof)
    calls, current = [], None
    for e in events:
        if "spin_kernel" in e.name():
            if current is not None:
                calls.append(current)
            current = []
        elif current is not None:
            current.append((e.name(), e.duration_ns()))
    if len(calls) != len(cases) * reps:
        print(f"warning: {len(calls)} calls seen, {len(cases) * reps} made", file=sys.stderr)
        return None
    for i in range(len(cases)):
        out.append(calls[i * reps:(i + 1) * reps])
    return out


def total_us(calls):
    return round(statistics.median(sum(ns for _, ns in c) for c in calls) / 1e3, 2)


def short(name):
    name = name.replace("void ", "").replace("at::native::", "").replace("(anonymous namespace)::", "")
    return name.split("(")[0][:64]


def kernels(calls):
    """Median time by kernel of a case, in order of first launch: [[name, launches, µs]]."""
    names = list(dict.fromkeys(n for c in calls for n, _ in c))
    return [[short(n), sum(1 for m, _ in calls[-1] if m == n),
             round(statistics.median(sum(ns for m, ns in c if m == n) for c in calls) / 1e3, 2)] for n in names]


def main_kernel(calls):
    best = max(calls[-1], key=lambda x: x[1])
    return short(best[0])


# ------------------------------------------------------------------------------------------------------------ GEMM
LINEARS = [  # (out, in) of training's nn.Linears
    (1024, 1024), (256, 1024), (2816, 1024), (1024, 2816), (32000, 1024),           # llama-tiny
    (2048, 2048), (512, 2048), (8192, 2048), (2048, 8192), (128256, 2048),          # llama-1b
    (3072, 3072), (1024, 3072), (8192, 3072), (3072, 8192),                         # llama-3b
    (4096, 4096), (1024, 4096), (14336, 4096), (4096, 14336), (128256, 4096),       # llama-8b
    (8192, 8192), (28672, 8192), (8192, 28672),                                     # llama-70b
    (6144, 2048), (2048, 6144), (1024, 2048), (151936, 2048),                       # qwen3-1.7b
    (1600, 1600), (4800, 1600), (6400, 1600), (1600, 6400), (50257, 1600),          # gpt2-xl
    (3584, 1024), (1536, 1536), (8960, 1536),
]


def linear_case(dtype, use, m, out, inner):
    """The product that nn.Linear(inner, out) on m rows does in `use`, and its (m, n, k)."""
    dt = DTYPES[dtype]
    x = torch.randn(m, inner, device=DEV, dtype=dt)
    w = torch.randn(out, inner, device=DEV, dtype=dt) * 0.02
    if use == "forward":
        return (lambda: F.linear(x, w)), (m, out, inner)
    g = torch.randn(m, out, device=DEV, dtype=dt)
    if use == "dgrad":
        return (lambda: g.mm(w)), (m, inner, out)
    return (lambda: g.t().mm(x)), (out, inner, m)


def gemm_list():
    cases = []
    for m in (256, 512, 2048, 8192):
        for out, inner in LINEARS:
            if m * out > 8192 * 60000 and m > 2048:
                if (out, inner) != (128256, 2048):
                    continue
            if m == 8192 and inner * out > 8192 * 15000 and (out, inner) not in ((28672, 8192), (128256, 2048)):
                continue
            for use in ("forward", "dgrad", "wgrad"):
                cases.append(("bfloat16", use, 1, m, out, inner))
    for s in (128, 256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384):
        cases.append(("bfloat16", "square", 1, s, s, s))
    state = 12345
    def rnd():
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (state >> 33) / 2**31
    for i in range(90):
        m, n, k = (int(64 * 2 ** (7.5 * rnd())) for _ in range(3))
        align = (64, 8, 1)[0 if i < 60 else 1 if i < 80 else 2]
        m, n, k = (max(align, v // align * align) for v in (m, n, k))
        cases.append(("bfloat16", "random", 1, m, n, k))
    for s in (512, 1024, 2048, 4096, 8192):
        cases.append(("float16", "square", 1, s, s, s))
        cases.append(("float32", "square", 1, s, s, s))
        cases.append(("tf32", "square", 1, s, s, s))
    for dt in ("float32", "tf32", "float16"):
        shapes = [(2048, 2048, 2048), (512, 8192, 2048), (2048, 2048, 8192), (8192, 1024, 1024), (2048, 2816, 1024), (256, 4096, 4096)]
        for m, out, inner in shapes:
            for use in ("forward", "dgrad", "wgrad"):
                cases.append((dt, use, 1, m, out, inner))
    for m, d in [(4, 10240), (4, 4096), (8, 8192), (16, 10240), (64, 4096), (128, 10240), (256, 16384), (1024, 4096)]:
        outs = [(d, d)] if d != 16384 else [(16384, 4096), (4096, 16384)]
        for out, inner in outs:
            for use in ("forward", "dgrad", "wgrad"):
                cases.append(("float32", use, 1, m, out, inner))
    for m in (1, 4, 16, 64, 128):
        for out, inner in ((4096, 4096), (10240, 10240), (2048, 8192)):
            for use in ("forward", "dgrad", "wgrad"):
                cases.append(("bfloat16", use, 1, m, out, inner))
    for m in (512, 2048):
        for out, inner in ((4800, 1600), (1600, 1600), (6400, 1600), (1600, 6400), (4096, 4096)):
            cases.append(("bfloat16", "addmm", 1, m, out, inner))
    for b, m, n, k in ((16, 512, 512, 64), (64, 1024, 1024, 64), (32, 2048, 2048, 128), (8, 512, 3584, 1024), (4, 4096, 4096, 4096), (2, 64, 1024, 1)):
        cases.append(("bfloat16", "bmm", b, m, n, k))
        cases.append(("float32", "bmm", b, m, n, k))
    return cases


def make_gemm(dtype, use, batch, m, n, k):
    torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
    if use in ("forward", "dgrad", "wgrad"):
        return linear_case(dtype, use, m, n, k)
    dt = DTYPES[dtype]
    if use == "bmm":
        a = torch.randn(batch, m, k, device=DEV, dtype=dt); b = torch.randn(batch, k, n, device=DEV, dtype=dt)
        return (lambda: torch.bmm(a, b)), (m, n, k)
    a = torch.randn(m, k, device=DEV, dtype=dt)
    if use == "addmm":
        b = torch.randn(k, n, device=DEV, dtype=dt); c = torch.randn(n, device=DEV, dtype=dt)
        return (lambda: torch.addmm(c, a, b)), (m, n, k)
    b = torch.randn(n, k, device=DEV, dtype=dt)
    return (lambda: F.linear(a, b)), (m, n, k)


def probe_gemm(reps):
    rows = []
    cases = gemm_list()
    for i in range(0, len(cases), 12):
        for tf32 in (False, True):
            chunk = [c for c in cases[i:i + 12] if (c[0] == "tf32") == tf32]
            if not chunk:
                continue
            made = [make_gemm(*c) for c in chunk]
            for f, _ in made:
                f(); f()
            got = traced([f for f, _ in made], reps)
            if got is None:
                continue
            for c, (f, (m, n, k)), calls in zip(chunk, made, got):
                rows.append([c[0], c[1], c[2], m, n, k, total_us(calls), main_kernel(calls)])
            del made
    torch.backends.cuda.matmul.allow_tf32 = False
    return rows


# ---------------------------------------------------------------------------------------------------------- float8
def float8_list():
    """(use, m, n, k) of products whose sizes are multiples of 16, as float8 wants them."""
    cases = []
    for tokens in (256, 512, 1024, 2048, 4096, 8192):
        for out, inner in LINEARS:
            if tokens * out * inner <= 8192 * 28672 * 8192 and out < 30000:
                cases += [("forward", tokens, out, inner), ("dgrad", tokens, inner, out), ("wgrad", out, inner, tokens)]
    cases += [("square", s, s, s) for s in (128, 256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384)]
    state = 54321
    def rnd():
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (state >> 33) / 2**31
    for _ in range(90):
        cases.append(("random", *(int(64 * 2 ** (7.5 * rnd())) // 16 * 16 for _ in range(3))))
    return cases


def make_float8(use, m, n, k):
    backward = use in ("dgrad", "wgrad")
    one = torch.ones((), device=DEV)
    a = torch.randn(m, k, device=DEV).to(torch.float8_e5m2 if backward else torch.float8_e4m3fn)
    b = torch.randn(n, k, device=DEV).to(torch.float8_e4m3fn).t()
    return lambda: torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16, use_fast_accum=not backward)


def layer_linears(dim, ffn, kv, tokens):
    linears = [(dim, dim), (kv, dim), (kv, dim), (dim, dim), (ffn, dim), (ffn, dim), (dim, ffn)]
    forward = [("forward", tokens, out, inner) for out, inner in linears]
    return forward + [case for out, inner in reversed(linears)
                      for case in (("wgrad", out, inner, tokens), ("dgrad", tokens, inner, out))]


def sustained_float8():
    out = {}
    for name, shape in {"llama-8b-1x4096": (4096, 14336, 1024, 4096), "llama-8b-4x4096": (4096, 14336, 1024, 16384),
                        "llama-1b-4x2048": (2048, 8192, 512, 8192)}.items():
        cases = layer_linears(*shape)
        made = [make_float8(*case) for case in cases]
        for _ in range(2):  # the first builds what is called
            begin = time.time()
            while time.time() - begin < 3:
                for f in made * 20: f()
                torch.cuda.synchronize()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as prof:
            for f in made * 30: f()
            torch.cuda.synchronize()
        times = [e.duration_ns() for e in device_events(prof) if e.duration_ns() > 0 and "nvjet" in e.name()]
        if len(times) != 30 * len(cases):
            print(f"warning: {len(times)} kernels of {30 * len(cases)} calls", file=sys.stderr)
            continue
        out[name] = [[*case[1:], round(statistics.median(times[i::len(cases)]) / 1e3, 2)] for i, case in enumerate(cases)]
    return out


def probe_float8(reps):
    rows, cases = [], float8_list()
    for i in range(0, len(cases), 12):
        chunk = cases[i:i + 12]
        made = [make_float8(*case) for case in chunk]
        for f in made: f(); f()
        for case, calls in zip(chunk, traced(made, reps) or []):
            use, m, n, k = case
            rows.append(["float8", use, 1, m, n, k, total_us(calls), main_kernel(calls)])
    return {"gemm": rows, "sustained": sustained_float8()}


# ------------------------------------------------------------------------------------------------------- attention
def attention_list():
    cases = []
    for causal in (True, False):
        for d, h, kv in ((64, 32, 8), (64, 16, 16), (128, 32, 8), (128, 16, 16)):
            for s in (256, 512, 1024, 2048, 4096, 8192):
                for tokens in (2048, 8192):
                    if s <= tokens and (causal or tokens == 8192):
                        cases.append(("bfloat16", causal, tokens // s, h, kv, s, d))
    for s, b in ((1024, 2), (1024, 1), (512, 1)):
        cases.append(("bfloat16", True, b, 25, 25, s, 64))
    for s in (512, 2048):
        cases.append(("bfloat16", True, 8192 // s, 16, 16, s, 256))
        cases.append(("bfloat16", True, 8192 // s, 16, 16, s, 96))
        cases.append(("float16", True, 8192 // s, 32, 8, s, 128))
    for s, b, h, d in ((64, 4, 16, 256), (256, 4, 16, 64), (512, 4, 16, 64), (1024, 2, 16, 128), (2048, 1, 16, 64)):
        cases.append(("float32", True, b, h, h, s, d))
        cases.append(("float32", False, b, h, h, s, d))
    return cases


def make_attention(dtype, causal, b, h, kv, s, d):
    dt = DTYPES[dtype]
    def make(n, contiguous):
        t = torch.randn(b, n, s, d, device=DEV, dtype=dt) if contiguous \
            else torch.randn(b, s, n, d, device=DEV, dtype=dt).transpose(1, 2)
        return t.requires_grad_()
    q, k, v = make(h, True), make(kv, True), make(kv, False)
    def forward():
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=h != kv)
    o = forward()
    g = torch.randn(b, s, h, d, device=DEV, dtype=dt).transpose(1, 2)
    def backward():
        torch.autograd.grad(o, (q, k, v), g, retain_graph=True)
    return forward, backward


def probe_attention(reps):
    rows = []
    cases = attention_list()
    for i in range(0, len(cases), 8):
        chunk = cases[i:i + 8]
        made = [make_attention(*c) for c in chunk]
        flat = [f for pair in made for f in pair]
        for f in flat:
            f(); f()
        got = traced(flat, reps)
        if got is None:
            continue
        for j, c in enumerate(chunk):
            fw, bw = got[2 * j], got[2 * j + 1]
            rows.append([*c, total_us(fw), total_us(bw), kernels(fw), kernels(bw)])
    return rows


# ---------------------------------------------------------------------------------------------------------- memory
def memory_ops():
    """name → (access, function of (elements) giving (call, bytes)). Every call makes its own outputs."""
    bf, f32 = torch.bfloat16, torch.float32
    ops = {}
    def op(name, access, dtype):
        def wrap(f):
            ops[name + ":" + dtype] = (access, dtype, f)
            return f
        return wrap
    for dn, dt, sz in (("bfloat16", bf, 2), ("float32", f32, 4)):
        def r(n, dt=dt): return torch.randn(n, device=DEV, dtype=dt)
        op("add", "contiguous", dn)(lambda n, r=r, sz=sz: ((lambda a, b: lambda: a + b)(r(n), r(n)), 3 * sz * n))
        op("mul", "contiguous", dn)(lambda n, r=r, sz=sz: ((lambda a, b: lambda: a * b)(r(n), r(n)), 3 * sz * n))
        op("scale", "contiguous", dn)(lambda n, r=r, sz=sz: ((lambda a: lambda: a * 0.5)(r(n)), 2 * sz * n))
        op("silu", "contiguous", dn)(lambda n, r=r, sz=sz: ((lambda a: lambda: F.silu(a))(r(n)), 2 * sz * n))
        op("silu_backward", "contiguous", dn)(lambda n, r=r, sz=sz: ((lambda a, b: lambda: torch.ops.aten.silu_backward(a, b))(r(n), r(n)), 3 * sz * n))
        op("gelu", "contiguous", dn)(lambda n, r=r, sz=sz: ((lambda a: lambda: F.gelu(a))(r(n)), 2 * sz * n))
        op("gelu_backward", "contiguous", dn)(lambda n, r=r, sz=sz: ((lambda a, b: lambda: torch.ops.aten.gelu_backward(a, b))(r(n), r(n)), 3 * sz * n))
        op("tanh", "contiguous", dn)(lambda n, r=r, sz=sz: ((lambda a: lambda: torch.tanh(a))(r(n)), 2 * sz * n))
        op("pow3", "contiguous", dn)(lambda n, r=r, sz=sz: ((lambda a: lambda: torch.pow(a, 3.0))(r(n)), 2 * sz * n))
        op("fill", "contiguous", dn)(lambda n, dt=dt, sz=sz: ((lambda: torch.ones(n, device=DEV, dtype=dt)), sz * n))
        def rows(n, dt, d=2048): return torch.randn(max(1, n // d), d, device=DEV, dtype=dt)
        w = torch.randn(2048, device=DEV, dtype=dt)
        op("rms_norm", "row", dn)(lambda n, dt=dt, sz=sz, w=w: ((lambda a: lambda: F.rms_norm(a, (2048,), w))(rows(n, dt)), 2 * sz * n))
        def norm_backward(n, dt=dt, sz=sz, w=w):
            x = rows(n, dt); y, rstd = torch.ops.aten._fused_rms_norm(x, [2048], w, 1e-5)
            return (lambda: torch.ops.aten._fused_rms_norm_backward(y, x, [2048], rstd, w, [True, False])), 3 * sz * n
        op("rms_norm_backward", "row", dn)(norm_backward)
        def norm_weight(n, dt=dt, sz=sz, w=w):
            x = rows(n, dt); y, rstd = torch.ops.aten._fused_rms_norm(x, [2048], w, 1e-5)
            return (lambda: torch.ops.aten._fused_rms_norm_backward(y, x, [2048], rstd, w, [False, True])), 2 * sz * n
        op("rms_norm_weight", "column", dn)(norm_weight)
        op("layer_norm", "row", dn)(lambda n, dt=dt, sz=sz, w=w: ((lambda a: lambda: F.layer_norm(a, (2048,), w))(rows(n, dt)), 2 * sz * n))
        op("mean_last", "row", dn)(lambda n, dt=dt, sz=sz: ((lambda a: lambda: a.mean(-1, keepdim=True))(rows(n, dt)), sz * n))
        op("sum_rows", "column", dn)(lambda n, dt=dt, sz=sz: ((lambda a: lambda: a.sum(0))(rows(n, dt)), sz * n))
        op("sum_all", "row", dn)(lambda n, dt=dt, sz=sz: ((lambda a: lambda: a.sum())(r(n)), sz * n))
        op("mul_column", "strided", dn)(lambda n, dt=dt, sz=sz: ((lambda a, c: lambda: a * c)(rows(n, dt), torch.randn(max(1, n // 2048), 1, device=DEV, dtype=dt)), 2 * sz * n))
        op("mul_row", "strided", dn)(lambda n, dt=dt, sz=sz, w=w: ((lambda a: lambda: a * w)(rows(n, dt)), 2 * sz * n))
        def heads(n, dt, d=64): return torch.randn(1, max(1, n // (32 * d)), 32, d, device=DEV, dtype=dt)
        op("transpose_copy", "strided", dn)(lambda n, dt=dt, sz=sz: ((lambda a: lambda: a.transpose(1, 2).contiguous())(heads(n, dt)), 2 * sz * n))
        def rope_mul(n, dt=dt, sz=sz):
            a = heads(n, dt).transpose(1, 2); half = a.chunk(2, dim=-1)[0]
            c = torch.randn(a.shape[2], 32, device=DEV, dtype=dt)
            return (lambda: half * c), sz * n
        op("rope_mul", "strided", dn)(rope_mul)
        def rope_cat(n, dt=dt, sz=sz):
            a = torch.randn(1, 32, max(1, n // 2048), 32, device=DEV, dtype=dt); b = torch.randn_like(a)
            return (lambda: torch.cat((a, b), dim=-1)), 2 * sz * n
        op("rope_cat", "concatenate", dn)(rope_cat)
        def rope_cat_t(n, dt=dt, sz=sz):
            a = torch.randn(1, max(1, n // 2048), 32, 32, device=DEV, dtype=dt).transpose(1, 2); b = torch.randn_like(a)
            return (lambda: torch.cat((a, b), dim=-1)), 2 * sz * n
        op("rope_cat_transposed", "concatenate", dn)(rope_cat_t)
        def embed(n, dt=dt, sz=sz):
            table = torch.randn(50000, 2048, device=DEV, dtype=dt); i = torch.randint(0, 50000, (max(1, n // 2048),), device=DEV)
            return (lambda: F.embedding(i, table)), 2 * sz * n
        op("embedding", "gather", dn)(embed)
        def embed_backward(n, dt=dt, sz=sz):
            i = torch.randint(0, 50000, (max(1, n // 2048),), device=DEV); g = rows(n, dt)
            return (lambda: torch.ops.aten.embedding_dense_backward(g, i, 50000, -1, False)), 2 * sz * n + 50000 * 2048 * sz
        op("embedding_backward", "scatter", dn)(embed_backward)
        def optimizer(kind):
            def make(n, dt=dt, sz=sz):
                ps = [torch.randn(max(1, n // 16), device=DEV, dtype=dt).requires_grad_() for _ in range(16)]
                for p in ps: p.grad = torch.randn_like(p)
                o = torch.optim.Adam(ps, foreach=kind == "foreach", fused=kind == "fused") if kind != "sgd" else torch.optim.SGD(ps, lr=1e-5, foreach=True)
                o.step()
                return o.step, {"foreach": 24, "fused": 7, "sgd": 3}[kind] * n * sz
            return make
        for kind in ("foreach", "fused", "sgd"):
            op("optimizer_" + kind, "multi_tensor", dn)(optimizer(kind))
    op("cast_down", "contiguous", "float32")(lambda n: ((lambda a: lambda: a.to(bf))(torch.randn(n, device=DEV)), 6 * n))
    op("cast_up", "strided", "bfloat16")(lambda n: ((lambda a: lambda: a.float())(torch.randn(n, device=DEV, dtype=bf)), 6 * n))
    def vocabulary(n, v=32000): return max(1, n // v), v
    def softmax(n):
        a = torch.randn(*vocabulary(n), device=DEV)
        return (lambda: F.log_softmax(a, dim=-1)), 8 * a.numel()
    op("log_softmax", "row", "float32")(softmax)
    def softmax_backward(n):
        a = torch.randn(*vocabulary(n), device=DEV); o = F.log_softmax(a, dim=-1)
        return (lambda: torch.ops.aten._log_softmax_backward_data(a, o, 1, torch.float32)), 12 * a.numel()
    op("log_softmax_backward", "row", "float32")(softmax_backward)
    def chunk_cat(n):
        gs = [torch.randn(max(4, n // 4 // 2048), 2048, device=DEV, dtype=bf) for _ in range(4)]
        out = torch.empty(4, sum(g.numel() for g in gs) // 4 + 64 * 2048, device=DEV, dtype=f32)
        rows_ = [g.shape[0] // 4 * 4 for g in gs]; gs = [g[:r].contiguous() for g, r in zip(gs, rows_)]
        out = torch.empty(4, sum(g.numel() for g in gs) // 4, device=DEV, dtype=f32)
        return (lambda: torch._chunk_cat(gs, dim=0, num_chunks=4, out=out)), 6 * out.numel()
    op("chunk_cat", "chunk_cat", "bfloat16")(chunk_cat)
    def copy_out(n):
        shard = max(4, n // 4 // 4); a = torch.randn(4, 4 * shard, device=DEV, dtype=bf)
        outs = [torch.empty(4, shard, device=DEV, dtype=bf) for _ in range(4)]
        return (lambda: torch.ops.fsdp.split_with_sizes_copy(a, [shard] * 4, dim=1, out=outs)), 4 * a.numel()
    op("copy_out", "copy_out", "bfloat16")(copy_out)
    def gather_cast(n):
        src = [torch.randn(max(1, n // 9), device=DEV) for _ in range(9)]; dst = [torch.empty(s.numel(), device=DEV, dtype=bf) for s in src]
        return (lambda: torch._foreach_copy_(dst, src)), 6 * sum(s.numel() for s in src)
    op("gather_cast", "gather_copy", "float32")(gather_cast)
    def gather_copy(n):
        src = [torch.randn(max(1, n // 9), device=DEV, dtype=bf) for _ in range(9)]; dst = [torch.empty_like(s) for s in src]
        return (lambda: torch._foreach_copy_(dst, src)), 4 * sum(s.numel() for s in src)
    op("gather_copy", "gather_copy", "bfloat16")(gather_copy)
    return ops


def probe_memory(reps):
    import torch.distributed.fsdp  # registers torch.ops.fsdp
    rows = []
    flush = torch.randn(80_000_000, device=DEV)  # 320 MB
    for key, (access, dtype, make) in memory_ops().items():
        name = key.split(":")[0]
        for n in (1 << 13, 1 << 17, 1 << 20, 1 << 22, 1 << 23, 1 << 24, 1 << 26, 1 << 28):
            if n == 1 << 28 and name not in ("add", "silu", "log_softmax", "log_softmax_backward", "fill", "cast_up"):
                continue
            try:
                call, nbytes = make(n)
                for _ in range(3): call()
                hot = traced([call], reps)
                cold = None
                if nbytes < 400e6:
                    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as prof:
                        for _ in range(5):
                            flush.mul_(1.0000001); torch.cuda._sleep(20000); call()
                        torch.cuda._sleep(20000); flush.mul_(1.0); torch.cuda.synchronize()
                    ev = device_events(prof)
                    spins = [i for i, e in enumerate(ev) if "spin_kernel" in e.name()]
                    sums = []
                    for a, b in zip(spins, spins[1:]):
                        group = ev[a + 1:b]
                        if b != spins[-1]: group = group[:-1]
                        sums.append(sum(e.duration_ns() for e in group))
                    cold = round(statistics.median(sums) / 1e3, 2)
                else:
                    cold = total_us(hot[0])
                rows.append([access, name, dtype, n, nbytes, cold, total_us(hot[0]), kernels(hot[0])])
            except Exception as error:  # an operator that this PyTorch lacks
                print(f"skipped {key} {n}: {error}", file=sys.stderr)
                torch.cuda.synchronize()
                break
    return rows


# ------------------------------------------------------------------------------------------------------------ host
def host_us(call, n=200, repeats=9):
    """Median over `repeats` of the host time of one of `n` calls issued in a row to an idle GPU."""
    times = []
    for _ in range(repeats + 2):
        torch.cuda.synchronize()
        t = time.perf_counter()
        for _ in range(n):
            call()
        times.append((time.perf_counter() - t) / n * 1e6)
    torch.cuda.synchronize()
    return round(statistics.median(times[2:]), 3)


def chain_backward_us(step, depth, repeats=9, start=None):
    """Host time of backward through `depth` applications of `step`, for each application (loss.backward() of a sum)."""
    times = []
    for _ in range(repeats + 2):
        x = start()
        for _ in range(depth):
            x = step(x)
        g = torch.ones_like(x)
        torch.cuda.synchronize()
        t = time.perf_counter()
        x.backward(g)
        times.append((time.perf_counter() - t) / depth * 1e6)
        torch.cuda.synchronize()
    return round(statistics.median(times[2:]), 3)


def probe_host():
    bf = torch.bfloat16
    out = {}
    x = torch.randn(2, 64, 256, device=DEV, dtype=bf, requires_grad=True)
    y = torch.randn(2, 64, 256, device=DEV, dtype=bf, requires_grad=True)
    w = torch.randn(256, 256, device=DEV, dtype=bf, requires_grad=True)
    nw = torch.randn(256, device=DEV, dtype=bf, requires_grad=True)
    q = torch.randn(2, 4, 64, 64, device=DEV, dtype=bf, requires_grad=True)
    table = torch.randn(1000, 256, device=DEV, dtype=bf, requires_grad=True)
    ids = torch.randint(0, 1000, (2, 64), device=DEV)
    logits = torch.randn(128, 1000, device=DEV, requires_grad=True)
    target = torch.zeros(128, dtype=torch.long, device=DEV)
    class Empty(nn.Module):
        def forward(self, a): return a
    empty = Empty(); linear = nn.Linear(256, 256, bias=False, device=DEV, dtype=bf); norm = nn.RMSNorm(256, device=DEV, dtype=bf)
    xb = torch.randn(2, 64, 256, device=DEV)
    calls = {
        "module": lambda: empty(x), "view": lambda: x.view(128, 256), "transpose": lambda: q.transpose(1, 2),
        "chunk2": lambda: q.chunk(2, dim=-1), "add": lambda: x + y, "mul": lambda: x * y, "silu": lambda: F.silu(x),
        "cast": lambda: x.float(), "cat": lambda: torch.cat((x, y), -1), "neg": lambda: -x,
        "linear": lambda: F.linear(x, w), "linear_module": lambda: linear(x), "mm_2d": lambda: torch.mm(x.view(128, 256).detach(), w),
        "linear_fp32": lambda: F.linear(xb, xb[0, :, :].detach()),
        "rms_norm": lambda: F.rms_norm(x, (256,), nw), "rms_norm_module": lambda: norm(x),
        "layer_norm": lambda: F.layer_norm(x, (256,), nw), "mean": lambda: x.mean(), "sum": lambda: x.sum(),
        "sdpa": lambda: F.scaled_dot_product_attention(q, q, q, is_causal=True), "embedding": lambda: F.embedding(ids, table),
        "cross_entropy": lambda: F.cross_entropy(logits, target), "randint": lambda: torch.randint(0, 1000, (2, 64), device=DEV),
        "randn": lambda: torch.randn(2, 64, device=DEV), "empty": lambda: torch.empty(256, device=DEV), "ones": lambda: torch.ones(256, device=DEV),
    }
    for name, call in calls.items():
        out[name] = host_us(call, n=100 if name in ("sdpa", "cross_entropy", "linear", "linear_module") else 200)
    def inner(): return torch.randn(2, 64, 256, device=DEV, dtype=bf, requires_grad=True)
    c = torch.randn(2, 64, 256, device=DEV, dtype=bf)
    sq = torch.randn(256, 256, device=DEV, dtype=bf)
    wg = torch.randn(256, 256, device=DEV, dtype=bf, requires_grad=True)
    out["backward_mul_constant"] = chain_backward_us(lambda a: a * c, 100, start=inner)
    out["backward_silu"] = chain_backward_us(F.silu, 100, start=inner)
    out["backward_add"] = chain_backward_us(lambda a: a + c, 100, start=inner)
    out["backward_view"] = chain_backward_us(lambda a: a.view(128, 256).view(2, 64, 256), 100, start=inner) / 2
    out["backward_linear_input_only"] = chain_backward_us(lambda a: F.linear(a, sq), 60, start=inner)
    def with_weight(a): return F.linear(a, wg)
    out["backward_linear_shared_weight"] = chain_backward_us(with_weight, 60, start=inner)
    ws = [torch.randn(256, 256, device=DEV, dtype=bf, requires_grad=True) for _ in range(60)]
    state = {"i": 0}
    def own_weight(a):
        state["i"] = (state["i"] + 1) % 60
        return F.linear(a, ws[state["i"]])
    def fresh():
        for p in ws: p.grad = None
        return inner()
    out["backward_linear_own_weight"] = chain_backward_us(own_weight, 60, start=fresh)
    out["backward_rms_norm"] = chain_backward_us(lambda a: F.rms_norm(a, (256,), nw.detach()), 60, start=inner)
    out["backward_sdpa"] = chain_backward_us(lambda a: F.scaled_dot_product_attention(a, a.detach(), a.detach(), is_causal=True), 30,
                                             start=lambda: torch.randn(2, 4, 64, 64, device=DEV, dtype=bf, requires_grad=True))
    for count in (16, 64, 160, 400):
        ps = [torch.randn(64, 64, device=DEV, requires_grad=True) for _ in range(count)]
        for kind in ("adam", "adam_fused", "adam_for", "sgd"):
            o = {"adam": lambda: torch.optim.Adam(ps), "adam_fused": lambda: torch.optim.Adam(ps, fused=True),
                 "adam_for": lambda: torch.optim.Adam(ps, foreach=False), "sgd": lambda: torch.optim.SGD(ps, lr=1e-5)}[kind]()
            if kind == "adam_for" and count > 64: continue
            def grads():
                for p in ps: p.grad = torch.zeros_like(p)
            grads(); o.step()
            times, zero = [], []
            for _ in range(7):
                grads(); torch.cuda.synchronize(); t = time.perf_counter(); o.step(); times.append((time.perf_counter() - t) * 1e6)
                torch.cuda.synchronize(); t = time.perf_counter(); o.zero_grad(); zero.append((time.perf_counter() - t) * 1e6)
            out[f"step_{kind}_{count}"] = round(statistics.median(times), 1)
            out[f"zero_grad_{count}"] = round(statistics.median(zero), 1)
    return out


# ------------------------------------------------------------------------------------------- a step under full load
class Block(nn.Module):
    """One layer of a plain eager Llama: RMSNorm, rotary in float32, SDPA with grouped heads, SwiGLU."""
    def __init__(self, dim, ffn, heads, kv):
        super().__init__()
        kw = {"device": DEV, "dtype": torch.bfloat16}
        self.hd = dim // heads
        self.attn_norm, self.ffn_norm = nn.RMSNorm(dim, **kw), nn.RMSNorm(dim, **kw)
        self.wq, self.wk = nn.Linear(dim, dim, bias=False, **kw), nn.Linear(dim, kv * self.hd, bias=False, **kw)
        self.wv, self.wo = nn.Linear(dim, kv * self.hd, bias=False, **kw), nn.Linear(dim, dim, bias=False, **kw)
        self.w1, self.w3 = nn.Linear(dim, ffn, bias=False, **kw), nn.Linear(dim, ffn, bias=False, **kw)
        self.w2 = nn.Linear(ffn, dim, bias=False, **kw)

    def forward(self, x, cos, sin):
        b, s, d = x.shape
        h = self.attn_norm(x)
        q, k, v = (w(h).view(b, s, -1, self.hd).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        def rotary(t):
            c, e = t.float().chunk(2, dim=-1)
            return torch.cat((c * cos - e * sin, e * cos + c * sin), dim=-1).type_as(t)
        o = F.scaled_dot_product_attention(rotary(q), rotary(k), v, is_causal=True, enable_gqa=True)
        x = x + self.wo(o.transpose(1, 2).reshape(b, s, -1))
        h = self.ffn_norm(x)
        return x + self.w2(F.silu(self.w1(h)) * self.w3(h))


class Mark(torch.autograd.Function):
    """A spin kernel in forward and in backward: marks the layers in a profile."""
    @staticmethod
    def forward(ctx, x):
        torch.cuda._sleep(500)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        torch.cuda._sleep(500)
        return g


def make_stack(layers, dim, ffn, heads, kv, batch, seq, marks):
    blocks = [Block(dim, ffn, heads, kv) for _ in range(layers)]
    for b in blocks:
        for p in b.parameters():
            nn.init.normal_(p, std=0.02)
    x = torch.randn(batch, seq, dim, device=DEV, dtype=torch.bfloat16, requires_grad=True)
    cos = torch.randn(seq, dim // heads // 2, device=DEV); sin = torch.randn_like(cos)
    g = torch.randn(batch, seq, dim, device=DEV, dtype=torch.bfloat16)
    def forward():
        y = x
        for b in blocks:
            if marks: y = Mark.apply(y)
            y = b(y, cos, sin)
        return Mark.apply(y) if marks else y
    def zero():
        for b in blocks:
            for p in b.parameters(): p.grad = None
    return forward, g, zero


def probe_sustained():
    """Kernels of a Llama layer in order, forward and backward, while the GPU has been busy with such steps for seconds:
    [[name, µs alone of other streams]]; clocks are what the power limit leaves."""
    out = {}
    for key, shape in {"llama-1b-4x2048": (8, 2048, 8192, 32, 8, 4, 2048), "llama-8b-2x2048": (4, 4096, 14336, 32, 8, 2, 2048),
                       "llama-1b-1x512": (8, 2048, 8192, 32, 8, 1, 512)}.items():
        forward, g, zero = make_stack(*shape, marks=True)
        start = time.time()
        while time.time() - start < 4:
            forward().backward(g); zero()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as prof:
            for _ in range(3):
                forward().backward(g); zero()
            torch.cuda.synchronize()
        groups, current = [], None
        for e in device_events(prof):
            if "spin_kernel" in e.name():
                if current: groups.append(current)
                current = []
            elif current is not None:
                current.append((e.name(), e.duration_ns()))
        kinds = {}
        for group in groups:
            kinds.setdefault(tuple(n for n, _ in group), []).append([ns for _, ns in group])
        best = sorted(kinds.items(), key=lambda k: -len(k[1]))[:2]
        out[key] = [{"layers": len(times), "kernels": [[short(n), round(statistics.median(t[i] for t in times) / 1e3, 2)] for i, n in enumerate(names)]}
                    for names, times in best]
        del forward, g, zero
    import subprocess
    out["clocks"] = subprocess.run(["nvidia-smi", "--query-gpu=clocks.sm,clocks.mem,power.draw,temperature.gpu", "--format=csv,noheader"],
                                   capture_output=True, text=True).stdout.strip()
    return out


def probe_host_stack():
    """Host time of one Llama layer of tiny shapes, nothing waiting on the GPU: from 8 against 4 layers."""
    out = {}
    times = {}
    for layers in (4, 8):
        forward, g, zero = make_stack(layers, 256, 512, 4, 2, 1, 32, marks=False)
        f, b, z = [], [], []
        for _ in range(15):
            torch.cuda.synchronize(); t = time.perf_counter(); y = forward(); f.append(time.perf_counter() - t)
            torch.cuda.synchronize(); t = time.perf_counter(); y.backward(g); b.append(time.perf_counter() - t)
            torch.cuda.synchronize(); t = time.perf_counter(); zero(); z.append(time.perf_counter() - t)
        times[layers] = [statistics.median(x[5:]) for x in (f, b, z)]
    for i, name in enumerate(("forward", "backward", "zero_grad")):
        out["layer_" + name] = round((times[8][i] - times[4][i]) / 4 * 1e6, 2)
    return out


def probe_strided(reps):
    """Element-bound kernels on views of four dimensions, as a rotary embedding of several sequences has them."""
    rows = []
    for b, s, h, d in ((4, 2048, 32, 64), (4, 2048, 8, 64), (2, 1024, 16, 128), (1, 2048, 32, 64), (8, 2048, 32, 128), (4, 512, 25, 64)):
        for dtype in ("float32", "bfloat16"):
            dt = DTYPES[dtype]
            size = 4 if dtype == "float32" else 2
            t = torch.randn(b, s, h, d, device=DEV, dtype=dt).transpose(1, 2)
            half = t.chunk(2, dim=-1)[0]
            c = torch.randn(s, d // 2, device=DEV, dtype=dt); full = torch.randn(1, 1, s, d, device=DEV, dtype=dt)
            grad = torch.randn(b, h, s, d, device=DEV, dtype=dt); other = torch.randn_like(t)
            n = b * s * h * d
            cases = {"half_mul": (lambda: half * c, n // 2, size * n), "full_mul": (lambda: t * full, n, 2 * size * n),
                     "neg_half": (lambda: -half, n // 2, size * n), "grad_half_mul": (lambda: grad.chunk(2, dim=-1)[0] * c, n // 2, size * n),
                     "add_mixed": (lambda: grad + t, n, 3 * size * n), "transpose_copy": (lambda: t.contiguous(), n, 2 * size * n),
                     "cat_views": (lambda: torch.cat((half, half), -1), n, 2 * size * n),
                     "cat_same": (lambda: torch.cat((c, c), -1), 2 * c.numel(), 4 * size * c.numel()),
                     "add_same": (lambda: t + other, n, 3 * size * n)}
            for f, _, _ in cases.values(): f()
            got = traced([f for f, _, _ in cases.values()], reps)
            for (name, (_, elements, nbytes)), calls in zip(cases.items(), got or []):
                rows.append([name, dtype, b, s, h, d, elements, nbytes, total_us(calls), main_kernel(calls)])
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--part", default="all", choices=["all", "gemm", "float8", "attention", "memory", "strided", "sustained", "host"])
    parser.add_argument("--reps", type=int, default=9)
    a = parser.parse_args()
    torch.manual_seed(0)
    cpu = next((l.split(":", 1)[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), platform.processor())
    doc = {"gpu": torch.cuda.get_device_name(), "sm_count": torch.cuda.get_device_properties(0).multi_processor_count,
           "l2_bytes": torch.cuda.get_device_properties(0).L2_cache_size, "cpu": cpu, "torch": torch.__version__,
           "cudnn": torch.backends.cudnn.version(), "date": datetime.date.today().isoformat(),
           "command": "python3 tools/probe_compute.py --part " + a.part, "reps": a.reps,
           "allow_tf32_default": torch.backends.cuda.matmul.allow_tf32}
    parts = {"host": lambda: {**probe_host(), **probe_host_stack()}, "gemm": lambda: probe_gemm(a.reps),
             "float8": lambda: probe_float8(a.reps), "attention": lambda: probe_attention(a.reps),
             "memory": lambda: probe_memory(a.reps), "strided": lambda: probe_strided(a.reps), "sustained": probe_sustained}
    for name, run in parts.items():
        if a.part not in ("all", name):
            continue
        t = time.time()
        try:
            doc[name] = run()
        except Exception as error:
            import traceback
            traceback.print_exc()
            doc[name + "_error"] = repr(error)
        print(f"{name}: {time.time() - t:.1f} s", flush=True)
        with open(a.out, "w") as f:
            json.dump(doc, f, separators=(",", ":"))
    print(json.dumps({k: v for k, v in doc.items() if not isinstance(v, list)})[:6000])


if __name__ == "__main__":
    main()
