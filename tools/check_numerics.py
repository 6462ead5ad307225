"""Trains the MLP, the Llama or PyTorch's test Transformer with FSDP2 from the weights and batches that `foreshard run` makes
(core/kernel/kernel.hpp: parameter i of model.parameters() is stream i, std 0.02; the batch of step s, microbatch 0, rank r
is stream 2^20 + s * 64 * 4096 + r), and compares losses and gradients.

    foreshard run llama-tiny --gpus 4 --steps 20 --batch 4 --seq 512 --param-dtype bfloat16 ... --json --gradients G > run.json
    torchrun --nproc-per-node 4 tools/check_numerics.py --model llama-tiny --batch 4 --seq 512 --mp bf16 --results run.json --gradients G

Several cases in one start: --cases FILE, a line of these options each. Prints JSON, a line a case, and ends with 1 where a bar is missed:
- float32: losses and gradients within 1e-4 of PyTorch's; a gradient's error is |a - b| / |b| over all its elements, a loss's is
  relative to the loss of the outputs' absolute values (a mean of numbers of both signs is near 0).
- bfloat16: foreshard is no further from PyTorch's float32 gradients of the first step, and its losses no further from PyTorch's
  float32 losses, than twice what PyTorch's own bfloat16 training is.
- float8: the same of PyTorch's bfloat16 training as the reference, and of its float8 by torchao's recipe.
"""
import argparse, gc, json, math, os, shlex, sys, types, unittest
import torch, torch.nn as nn, torch.nn.functional as F
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard, MixedPrecisionPolicy

MASK = (1 << 64) - 1


def signed(x):
    x &= MASK
    return x - (1 << 64) if x >> 63 else x


def shift(z, k):  # as unsigned
    return (z >> k) & ((1 << (64 - k)) - 1)


def bits(stream, first, count, dev):
    z = torch.arange(first, first + count, dtype=torch.int64, device=dev) + signed(stream << 40)
    golden = signed(0x9e3779b97f4a7c15)
    z = z * golden + golden
    z = (z ^ shift(z, 30)) * signed(0xbf58476d1ce4e5b9)
    z = (z ^ shift(z, 27)) * signed(0x94d049bb133111eb)
    return z ^ shift(z, 31)


def normal(stream, first, count, std, dev):
    z = bits(stream, first, count, dev)
    total = (z & 0xffff) + ((z >> 16) & 0xffff) + ((z >> 32) & 0xffff) + shift(z, 48) - 2 * 0xffff
    return total.float() * 2.6428998e-05 * std


def tokens(stream, count, bound, dev):
    return shift(bits(stream, 0, count, dev), 1) % bound


class MLP(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc1, self.gelu, self.fc2 = nn.Linear(dim, dim, bias=False), nn.GELU(), nn.Linear(dim, dim, bias=False)

    def forward(self, x): return self.fc2(self.gelu(self.fc1(x)))


class MultiMLP(nn.Module):
    def __init__(self, dim, layers):
        super().__init__()
        self.pre_norm = nn.LayerNorm(dim, bias=False)
        self.layers = nn.ModuleList([MLP(dim) for _ in range(layers)])
        self.post_norm = nn.LayerNorm(dim, bias=False)

    def forward(self, x):
        x = self.pre_norm(x)
        for m in self.layers: x = x + m(x)
        return self.post_norm(x)


def rope(x, cos, sin):
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).type_as(x)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, d, hd = c, c["dim"], c["dim"] // c["heads"]
        self.attn_norm = nn.RMSNorm(d)
        self.wq = nn.Linear(d, c["heads"] * hd, bias=False)
        self.wk = nn.Linear(d, c["kv_heads"] * hd, bias=False)
        self.wv = nn.Linear(d, c["kv_heads"] * hd, bias=False)
        self.wo = nn.Linear(c["heads"] * hd, d, bias=False)
        self.ffn_norm = nn.RMSNorm(d)
        self.w1, self.w3 = nn.Linear(d, c["ffn"], bias=False), nn.Linear(d, c["ffn"], bias=False)
        self.w2 = nn.Linear(c["ffn"], d, bias=False)

    def forward(self, x, cos, sin):
        b, s, d = x.shape
        hd = d // self.c["heads"]
        h = self.attn_norm(x)
        q, k, v = (w(h).view(b, s, -1, hd).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        q, k = rope(q, cos, sin), rope(k, cos, sin)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.wo(o.transpose(1, 2).reshape(b, s, -1))
        h = self.ffn_norm(x)
        return x + self.w2(F.silu(self.w1(h)) * self.w3(h))


class Llama(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.tok = nn.Embedding(c["vocab"], c["dim"])
        self.layers = nn.ModuleList([Block(c) for _ in range(c["layers"])])
        self.norm = nn.RMSNorm(c["dim"])
        self.head = nn.Linear(c["dim"], c["vocab"], bias=False)

    def forward(self, x, cos, sin):
        x = self.tok(x)
        for l in self.layers: x = l(x, cos, sin)
        return self.head(self.norm(x))


E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def cast(x, dtype):
    """By its largest element, and what undoes it (torchao, amax_to_scale)."""
    most = torch.finfo(dtype).max
    scale = (most / x.abs().max().double().clamp(min=1e-12)).float()
    return (x.float() * scale).clamp(-most, most).to(dtype), scale.reciprocal()


class Float8Product(torch.autograd.Function):
    """x @ w.T by torchao's tensorwise recipe."""

    @staticmethod
    def multiply(a, b, scales, fast):  # a @ b.T; both lie along what is summed
        return torch._scaled_mm(a.contiguous(), b.contiguous().t(), *scales, out_dtype=torch.bfloat16, use_fast_accum=fast)

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        (a, sa), (b, sb) = cast(x.flatten(0, -2), E4M3), cast(w, E4M3)
        return Float8Product.multiply(a, b, (sa, sb), True).view(*x.shape[:-1], w.shape[0])

    @staticmethod
    def backward(ctx, gradient):
        x, w = ctx.saved_tensors
        (d, sd), (a, sa), (b, sb) = cast(gradient.flatten(0, -2), E5M2), cast(x.flatten(0, -2), E4M3), cast(w, E4M3)
        return Float8Product.multiply(d, b.t(), (sd, sb), False).view(x.shape), Float8Product.multiply(d.t(), a.t(), (sd, sa), False)


def multiply_in_float8(block):
    for m in block.modules():
        if isinstance(m, nn.Linear): m.forward = types.MethodType(lambda self, x: Float8Product.apply(x, self.weight), m)


LLAMA = {"llama-tiny": dict(dim=1024, heads=16, kv_heads=4, ffn=2816, layers=8, vocab=32000),
         "llama-1b": dict(dim=2048, heads=32, kv_heads=8, ffn=8192, layers=16, vocab=128256)}


class Training:
    """One model under FSDP2. step() gives the loss, its scale, and this rank's gradients by name."""

    def __init__(self, a, mixed, rank, world, dev, float8=False):
        self.a, self.rank, self.world, self.dev, self.number = a, rank, world, dev, 0
        if a.model == "mlp":
            with torch.device("meta"): model = MultiMLP(a.dim or 10240, a.layers or 4)
            self.width = a.dim or 10240
        elif a.model == "torch-transformer":
            try: import expecttest  # the test module wants it, this script does not
            except ModuleNotFoundError: sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase)
            from torch.testing._internal.distributed._tensor.common_dtensor import ModelArgs, Transformer
            m = ModelArgs(); m.dim, m.max_seq_len, m.dropout_p = a.dim or 4096, a.seq, a.dropout
            m.n_layers = a.layers or m.n_layers
            model = Transformer(m).to(dev); self.vocab = m.vocab_size
        else:
            c = dict(LLAMA[a.model]); c["layers"] = a.layers or c["layers"]
            with torch.device("meta"): model = Llama(c)
            self.vocab, hd = c["vocab"], c["dim"] // c["heads"]
            freq = 1.0 / (500000.0 ** (torch.arange(0, hd, 2, device=dev).float() / hd))
            angle = torch.outer(torch.arange(a.seq, device=dev).float(), freq)
            self.tables = (angle.cos(), angle.sin())
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32 if a.reduce == "fp32" else torch.bfloat16) \
            if mixed else MixedPrecisionPolicy()
        if float8:
            for b in model.layers: multiply_in_float8(b)
        mesh = init_device_mesh("cuda", (world,))
        for b in model.layers: fully_shard(b, mesh=mesh, mp_policy=policy)
        fully_shard(model, mesh=mesh, mp_policy=policy)
        if a.model != "torch-transformer": model.to_empty(device=dev)
        with torch.no_grad():
            for i, p in enumerate(model.parameters()):
                local, inner = p.to_local(), p.numel() // p.shape[0]
                first = rank * math.ceil(p.shape[0] / world) * inner
                if local.numel(): local.copy_(normal(i, first, local.numel(), 0.02, dev).view_as(local))
        self.model = model
        make = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[a.opt]
        self.optimizer = make(model.parameters(), lr=a.lr)

    def batch(self):
        a, stream = self.a, (1 << 20) + self.number * 64 * 4096 + self.rank
        if a.model == "mlp": return (normal(stream, 0, a.batch * self.width, 1.0, self.dev).view(a.batch, self.width),)
        ids = tokens(stream, a.batch * a.seq, self.vocab, self.dev).view(a.batch, a.seq)
        return (ids,) if a.model == "torch-transformer" else (ids, *self.tables)

    def step(self):
        self.optimizer.zero_grad()
        out = self.model(*self.batch())
        if self.a.model == "mlp": loss, scale = out.mean(), out.detach().float().abs().mean()
        elif self.a.model == "torch-transformer": loss, scale = out.sum(), out.detach().float().abs().sum()
        else:
            loss = F.cross_entropy(out.flatten(0, 1).float(), torch.zeros(out.shape[0] * out.shape[1], dtype=torch.long, device=self.dev))
            scale = loss.detach().abs()
        loss.backward()
        gradients = {n: p.grad.to_local().detach().float().clone() for n, p in self.model.named_parameters()}
        self.optimizer.step(); self.number += 1
        return loss.item(), scale.item(), gradients


class Dump:
    """`foreshard run --gradients`: this rank's gradients by step and parameter."""

    def __init__(self, folder, rank, dev):
        self.rows = {(r["step"], r["parameter"]): r for r in json.load(open(os.path.join(folder, f"rank{rank}.json")))}
        self.file, self.dev = os.path.join(folder, f"rank{rank}.bin"), dev

    def get(self, step, name, like):
        r = self.rows.get((step, name))
        if r is None or r["numel"] != like.numel(): return None
        dtype = getattr(torch, r["dtype"])
        size = r["numel"] * torch.empty((), dtype=dtype).element_size()
        if size == 0: return torch.zeros_like(like)
        with open(self.file, "rb") as f:
            f.seek(r["offset"]); data = bytearray(f.read(size))
        return torch.frombuffer(data, dtype=dtype).to(self.dev).float().view_as(like)


def norms(pairs, dev):
    """Over all ranks: |a - b| and |b| of each pair."""
    sums = torch.stack([torch.stack(((a.double() - b.double()).square().sum(), b.double().square().sum())) for a, b in pairs])
    dist.all_reduce(sums)
    return sums.sqrt().tolist()


def options(arguments):
    p = argparse.ArgumentParser()
    p.add_argument("--model", required=True); p.add_argument("--dim", type=int, default=0); p.add_argument("--layers", type=int, default=0)
    p.add_argument("--batch", type=int, default=4); p.add_argument("--seq", type=int, default=512)
    p.add_argument("--mp", default="none", choices=["none", "bf16"]); p.add_argument("--reduce", default="fp32", choices=["fp32", "bf16"])
    p.add_argument("--steps", type=int, default=20); p.add_argument("--lr", type=float, default=1e-5)
    p.add_argument("--dropout", type=float, default=0.0)
    p.add_argument("--float8", default="none", choices=["none", "tensorwise"], help="of the Llama's blocks; with --mp bf16")
    p.add_argument("--opt", default="adam", choices=["adam", "sgd"])
    p.add_argument("--results", default="", help="JSON of foreshard run --json"); p.add_argument("--gradients", default="", help="its --gradients folder")
    p.add_argument("--out", default="", help="write the JSON here too")
    return p.parse_args(arguments)


def check(a, rank, world, dev):
    """One model; whether it is within its bars."""
    mixed = a.mp == "bf16"
    float8 = a.float8 != "none"  # then bfloat16 is the reference
    plain, low = Training(a, float8, rank, world, dev), Training(a, True, rank, world, dev, float8) if mixed else None
    reference = "PyTorch's bfloat16" if float8 else "float32"
    names = [n for n, _ in plain.model.named_parameters()]
    dump = Dump(a.gradients, rank, dev) if a.gradients else None
    ours = None
    if a.results:
        ranks = {r["rank"]: r for r in json.load(open(a.results))["ranks"]}
        ours = ranks[rank]["losses"]
    report = {"model": a.model, "mp": a.mp, "float8": a.float8, "world": world, "torch": torch.__version__, "steps": [], "failed": []}
    for s in range(a.steps):
        loss32, scale, gradient32 = plain.step()
        loss, _, gradient = low.step() if mixed else (loss32, scale, gradient32)
        row = {"step": s, "loss": loss, "loss_reference": loss32, "scale": scale}
        size = norms([(torch.zeros_like(gradient[n]), gradient[n]) for n in names], dev)
        row["gradient_norm"] = {n: v[1] for n, v in zip(names, size)}
        if ours is not None and s < len(ours):
            row["run_loss"] = ours[s]
            error = torch.tensor([abs(ours[s] - loss) / scale, abs(ours[s] - loss32) / scale, abs(loss - loss32) / scale], device=dev)
            dist.all_reduce(error, op=dist.ReduceOp.MAX)
            row["loss_error"], row["loss_error_to_reference"], row["torch_error_to_reference"] = error.tolist()
        found = [(n, dump.get(s, n, gradient[n])) for n in names] if dump else []
        missing = torch.tensor([sum(g is None for _, g in found)], device=dev); dist.all_reduce(missing)
        if found and missing.item() == 0:
            relative = lambda pairs: {n: v[0] / max(v[1], 1e-30) for n, v in zip(names, norms(pairs, dev))}
            error = relative([(g, gradient[n]) for n, g in found])
            row["gradient_error"], row["worst_gradient"] = max(error.values()), max(error, key=error.get)
            if s == 0: row["gradient_errors"] = error
            if mixed and s == 0:
                run32 = relative([(g, gradient32[n]) for n, g in found]); torch32 = relative([(gradient[n], gradient32[n]) for n in names])
                row["gradient_errors_to_reference"] = {n: [run32[n], torch32[n]] for n in names}
                report["failed"] += [f"step 0: gradient of {n}: {run32[n]:.3g} from {reference}, PyTorch {torch32[n]:.3g}"
                                     for n in names if run32[n] > 2 * torch32[n] + 1e-6]
            elif not mixed and row["gradient_error"] >= 1e-4:
                report["failed"].append(f"step {s}: gradient of {row['worst_gradient']}: {row['gradient_error']:.3g}")
        elif dump and s == 0:
            report["failed"].append(f"step 0: {missing.item()} gradients are missing from the dump, or have another size")
        if "loss_error" in row and not mixed and row["loss_error"] >= 1e-4: report["failed"].append(f"step {s}: loss: {row['loss_error']:.3g}")
        report["steps"].append(row)
    if mixed and ours is not None:
        run, own = (max(r[k] for r in report["steps"] if k in r) for k in ("loss_error_to_reference", "torch_error_to_reference"))
        if run > 2 * own + 1e-6: report["failed"].append(f"losses: {run:.3g} from {reference}, PyTorch {own:.3g}")
    report["worst_loss_error"] = max((r["loss_error"] for r in report["steps"] if "loss_error" in r), default=None)
    report["worst_gradient_error"] = max((r["gradient_error"] for r in report["steps"] if "gradient_error" in r), default=None)
    if rank == 0:
        text = json.dumps(report)
        if a.out: open(a.out, "w").write(text)
        print(text if not a.out else json.dumps({k: v for k, v in report.items() if k != "steps"}), flush=True)
    return not report["failed"]


def main():
    if sys.argv[1:2] == ["--cases"]: cases = [options(shlex.split(line)) for line in open(sys.argv[2]) if line.strip()]
    else: cases = [options(None)]
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    for key, value in (("RANK", "0"), ("WORLD_SIZE", "1"), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29577")): os.environ.setdefault(key, value)
    dev = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))); torch.cuda.set_device(dev)
    dist.init_process_group("nccl", device_id=dev)
    torch.backends.cuda.matmul.allow_tf32 = False
    good = True
    for a in cases:
        good = check(a, rank, world, dev) and good
        gc.collect(); torch.cuda.empty_cache()
    dist.barrier(); dist.destroy_process_group()
    sys.exit(0 if good else 1)


main()
