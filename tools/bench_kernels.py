"""PyTorch's rates for the operations that `test_gpu_kernels "[benchmark]"` times, at the same shapes."""
import torch, torch.nn.functional as F

D, H, KV, HD, FFN, V = 4096, 32, 8, 128, 14336, 128256
dev = torch.device("cuda")


def time(what, fn, flops=0, nbytes=0, repeats=20):
    for _ in range(3): fn()
    torch.cuda.synchronize()
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    a.record()
    for _ in range(repeats): fn()
    b.record(); torch.cuda.synchronize()
    us = a.elapsed_time(b) * 1e3 / repeats
    rate = f"{flops / us / 1e6:8.1f} TFLOP/s" if flops else f"{nbytes / us / 1e3:8.0f} GB/s"
    print(f"{what:44} {us:10.1f} us  {rate}", flush=True)


def rand(*shape, dtype=torch.bfloat16): return torch.randn(*shape, device=dev, dtype=dtype)


def main():
    print(torch.__version__, "cudnn", torch.backends.cudnn.version(), torch.cuda.get_device_name())
    x = rand(2**28, dtype=torch.float32); y = torch.empty_like(x)
    time("copy of 1 GiB", lambda: y.copy_(x), nbytes=2 * x.nbytes)
    z = torch.empty(2**28, device=dev, dtype=torch.bfloat16)
    time("copy of 1 GiB, float32 to bfloat16", lambda: z.copy_(x), nbytes=x.nbytes + z.nbytes)
    time("sum of 1 GiB", lambda: x.sum(), nbytes=x.nbytes)
    time("gelu of 1 GiB", lambda: torch.ops.aten.gelu.out(x, out=y), nbytes=2 * x.nbytes)
    del x, y, z
    a, w = rand(8192, 10240, dtype=torch.float32), rand(10240, 10240, dtype=torch.float32)
    time("gemm 8192 x 10240 x 10240 float32", lambda: a @ w.t(), flops=2 * 8192 * 10240 * 10240, repeats=5)
    del w; lw = torch.ones(10240, device=dev)
    time("layer_norm 8192 x 10240 float32", lambda: F.layer_norm(a, (10240,), lw), nbytes=2 * a.nbytes)
    del a
    for s in (512, 4096):
        for name, n, k in (("wq/wo", D, D), ("wk/wv", KV * HD, D), ("w1/w3", FFN, D), ("w2", D, FFN), ("head", V, D)):
            a, w, g = rand(s, k), rand(n, k), rand(s, n); fl = 2 * s * n * k
            time(f"gemm {name} s{s} forward", lambda: a @ w.t(), fl)
            time(f"gemm {name} s{s} dx", lambda: g @ w, fl)
            time(f"gemm {name} s{s} dw", lambda: g.t() @ a, fl)
        q, k, v = (rand(1, s, h, HD).transpose(1, 2).requires_grad_() for h in (H, KV, KV))
        fl = 4 * H * s * s * HD / 2
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
            f = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            time(f"attention s{s} forward", f, fl)
            o = f(); go = rand(*o.shape)
            time(f"attention s{s} backward", lambda: torch.autograd.grad(o, (q, k, v), go, retain_graph=True), 2.5 * fl)
        a, w = rand(s, D), rand(D)
        time(f"rms_norm s{s}", lambda: F.rms_norm(a, (D,), w), nbytes=2 * a.nbytes)
        time(f"add s{s}", lambda: a + a, nbytes=3 * a.nbytes)
        lg = rand(s, V)
        time(f"cast logits s{s} to float32", lambda: lg.float(), nbytes=3 * lg.nbytes)
        lf = lg.float()
        time(f"log_softmax s{s} float32", lambda: F.log_softmax(lf, -1), nbytes=2 * lf.nbytes)
        del lg, lf


main()
