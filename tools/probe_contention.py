"""Times kernels and collectives alone and side by side on real GPUs, kernel by kernel.

Where the constants of a machine profile's "contention" section come from (docs/contention.md). Needs PyTorch 2.11 or
later and 2 GPUs or more of one host; nothing else of foreshard needs either.

    torchrun --standalone --nproc-per-node 4 tools/probe_contention.py measure --variant nccl --out DIR
    … --variant symmetric and --variant copy-engine: NCCL's symmetric kernels and its zero-CTA all-gather
    python3 tools/probe_contention.py summarise DIR > sim/machine/measured/h200_contention.json

A section starts a row of equal kernels on one stream and a row of equal collectives on another at the same moment and
records every kernel's start and end on rank 0 (torch.profiler, GPU activity alone). `summarise` gives medians.
"""
import argparse, glob, gzip, json, os, statistics

MB = 2**20

def parse():
    p = argparse.ArgumentParser()
    sub = p.add_subparsers(dest="verb", required=True)
    m = sub.add_parser("measure")
    m.add_argument("--variant", default="nccl", choices=["nccl", "symmetric", "copy-engine"])
    m.add_argument("--bytes", type=int, default=256 * MB, help="whole buffer of a collective")
    m.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float32"], help="of what a collective moves")
    m.add_argument("--works", default="", help="only these kernels, NAME[,NAME...]; default: all")
    m.add_argument("--row-ms", type=float, default=10, help="how long a row of kernels takes alone")
    m.add_argument("--out", required=True)
    s = sub.add_parser("summarise")
    s.add_argument("dir")
    s.add_argument("--machine", default="")
    s.add_argument("--date", default="")
    return p.parse_args()


def measure(a):
    import torch, torch.distributed as dist, torch.nn.functional as F
    import torch.distributed._symmetric_memory as sm

    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dev = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(dev)

    def options(max_ctas=0):
        o = dist.ProcessGroupNCCL.Options()
        if a.variant == "copy-engine":
            o.config.cta_policy = dist.ProcessGroupNCCL.NCCL_CTA_POLICY_ZERO
        if max_ctas:
            o.config.max_ctas = max_ctas
        return o

    dist.init_process_group("nccl", pg_options=options(), device_id=dev)
    g = dist.group.WORLD
    dist.barrier()
    torch.cuda.set_stream(torch.cuda.Stream())
    high, low, second, ks, gate = (torch.cuda.Stream(priority=-1), torch.cuda.Stream(), torch.cuda.Stream(priority=-1),
                                   torch.cuda.Stream(), torch.cuda.Stream())
    if a.variant != "nccl":
        sm.set_backend("NCCL")

    moved = getattr(torch, a.dtype)

    def empty(n, group=g):
        if a.variant == "nccl":
            return torch.empty(n, dtype=moved, device=dev)
        with torch.cuda.use_mem_pool(sm.get_mem_pool(dev)):
            t = torch.empty(n, dtype=moved, device=dev)
        sm.rendezvous(t, group=group.group_name)
        return t

    bf, fp = torch.bfloat16, torch.float32
    rnd = lambda *s, dtype=bf: torch.randn(*s, device=dev, dtype=dtype)

    def gemm(m, n, k, dtype=bf, transposed=False):
        A = rnd(k, m, dtype=dtype).t() if transposed else rnd(m, k, dtype=dtype)
        B, C = rnd(k, n, dtype=dtype), torch.empty(m, n, device=dev, dtype=dtype)
        return lambda: torch.mm(A, B, out=C)

    def elementwise(mb, copies):
        X = [rnd(mb * MB // 2) for _ in range(copies)]
        Y, i = [torch.empty_like(x) for x in X], [0]

        def f():
            i[0] = (i[0] + 1) % copies
            torch.mul(X[i[0]], 2.0, out=Y[i[0]])
        return f

    q, k, v = (rnd(4, 32, 2048, 64).requires_grad_() for _ in range(3))
    with torch.cuda.stream(ks):
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        go = torch.randn_like(o)
    big = rnd(128 * MB)

    def forward():
        with torch.no_grad():
            F.scaled_dot_product_attention(q, k, v, is_causal=True)

    works = {
        "gemm_8192_8192_8192": gemm(8192, 8192, 8192),
        "gemm_4096_4096_4096": gemm(4096, 4096, 4096),
        "gemm_8192_8192_2048": gemm(8192, 8192, 2048),
        "gemm_8192_2048_8192": gemm(8192, 2048, 8192),
        "gemm_8192_2048_2048": gemm(8192, 2048, 2048),
        "gemm_4096_2048_2048": gemm(4096, 2048, 2048),
        "wgrad_2048_2048_8192": gemm(2048, 2048, 8192, transposed=True),
        "wgrad_8192_2048_8192": gemm(8192, 2048, 8192, transposed=True),
        # few rows: weights are read once, and none is held for long
        "gemm_512_14336_4096": gemm(512, 14336, 4096),
        "gemm_512_4096_14336": gemm(512, 4096, 14336),
        "gemm_512_4096_4096": gemm(512, 4096, 4096),
        "wgrad_14336_4096_512": gemm(14336, 4096, 512, transposed=True),
        "gemm_fp32_4_10240_10240": gemm(4, 10240, 10240, dtype=fp),
        "attention_forward": forward,
        "attention_backward": lambda: torch.autograd.grad(o, (q, k, v), go, retain_graph=True),
        "mul_32MiB": elementwise(16, 16),
        "mul_128MiB": elementwise(64, 4),
        "mul_512MiB": elementwise(256, 2),
        "sum_256MiB": lambda: big.sum(dtype=fp),
    }
    if a.works:
        works = {name: works[name] for name in a.works.split(",")}
    few = ["gemm_8192_8192_8192", "gemm_8192_8192_2048", "wgrad_2048_2048_8192", "attention_forward", "mul_128MiB",
           "mul_512MiB"]
    few = [name for name in few if name in works]

    n = a.bytes // moved.itemsize
    out, src, dst = empty(n), empty(n), empty(n // world)
    inp = out.view(world, -1)[rank]
    src.zero_()
    ag = lambda group=g: dist.all_gather_into_tensor(out, inp, group=group)
    rs = lambda group=g: dist.reduce_scatter_tensor(dst, src, group=group)
    params, shard = rnd(40 * MB, dtype=fp), torch.empty(40 * MB, device=dev, dtype=bf)
    comms = {"all_gather": ([(high, ag)], works), "reduce_scatter": ([(high, rs)], works)}
    if a.variant == "nccl":
        other = dist.new_group(list(range(world)), pg_options=options())
        comms["all_gather_low_priority"] = ([(low, ag)], works)
        for c in (8, 16):
            limited = dist.new_group(list(range(world)), pg_options=options(c))
            comms[f"all_gather_{c}_ctas"] = ([(high, lambda x=limited: ag(x))], few)
        comms["two"] = ([(high, ag), (second, lambda: rs(other))], few)
        comms["cast"] = ([(high, lambda: shard.copy_(params))], works)
    rows = []

    def both(label, compute, sides, repeat, side_repeat):
        dist.barrier()
        torch.cuda.synchronize()
        prof = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
        if rank == 0:
            prof.start()
        dist.barrier()  # no rank starts before rank 0 records
        torch.cuda.synchronize()
        with torch.cuda.stream(gate):
            torch.cuda._sleep(10_000_000)
            start = torch.cuda.Event()
            start.record()
        for s in [ks] + [s for s, _ in sides]:
            s.wait_event(start)
        left = side_repeat if sides else 0
        for i in range(max(repeat, 1)):  # interleaved, so that neither row's launches hold the other back
            while left > 0 and (side_repeat - left) * repeat <= i * side_repeat:
                for s, f in sides:
                    with torch.cuda.stream(s):
                        f()
                left -= 1
            if compute and i < repeat:
                with torch.cuda.stream(ks):
                    compute()
        while left > 0:
            for s, f in sides:
                with torch.cuda.stream(s):
                    f()
            left -= 1
        torch.cuda.synchronize()
        if rank != 0:
            return 0
        prof.stop()
        path = os.path.join("/tmp", "section.json")
        prof.export_chrome_trace(path)
        events = [e for e in json.load(open(path))["traceEvents"] if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
        gate_end = max([e["ts"] + e["dur"] for e in events if "spin" in e["name"]], default=0)
        events = [e for e in events if e["ts"] >= gate_end]
        ops = sorted([round(e["ts"], 3), round(e["dur"], 3), e["args"].get("stream", -1), e["name"][:90],
                      e["args"].get("grid", [0])[0] * (e["args"].get("grid", [0, 1, 1]) + [1, 1])[1],
                      e["args"].get("block", [0])[0], e["args"].get("shared memory", 0),
                      e["args"].get("registers per thread", 0)] for e in events)
        t0 = ops[0][0] if ops else 0
        for op in ops:
            op[0] = round(op[0] - t0, 3)
        rows.append({"section": label, "ops": ops})
        return sum(op[1] for op in ops)

    def everywhere(x):
        t = torch.tensor([float(x)], device=dev, dtype=torch.float64)
        dist.broadcast(t, 0)
        return t.item()

    alone = {}
    for name, f in works.items():
        both("warm", f, [], 3, 0)
        us = everywhere(both(["alone", name], f, [], 8, 0)) / 8
        alone[name] = us
        both(["alone", name], f, [], max(8, min(400, int(a.row_ms * 1e3 / us))), 0)
    for cname, (sides, among) in comms.items():
        try:
            both("warm", None, sides, 0, 3)
            us = everywhere(both(["alone", cname], None, sides, 0, 6)) / 6
            for wname in among:
                repeat = max(8, min(400, int(a.row_ms * 1e3 / alone[wname])))
                cover = repeat * alone[wname] * 1.6 / us
                both([wname, cname], works[wname], sides, repeat, max(6, min(400, int(cover))))
        except Exception as x:
            rows.append({"section": ["error", cname], "what": str(x)[:300]})
    if a.variant == "nccl" and not a.works:
        all_reduces(rows, rank, world, dev)
    if rank == 0:
        name = torch.cuda.get_device_name(dev)
        head = {"variant": a.variant, "world": world, "bytes": a.bytes, "dtype": a.dtype, "device": name, "torch": torch.__version__,
                "nccl": ".".join(map(str, torch.cuda.nccl.version()))}
        with gzip.open(os.path.join(a.out, f"contention_{a.variant}.json.gz"), "wt") as f:
            json.dump({"head": head, "rows": [r for r in rows if r["section"] != "warm"]}, f)
        print(head, len(rows), [r for r in rows if r["section"][0] == "error"], flush=True)
    dist.barrier()
    dist.destroy_process_group()


def all_reduces(rows, rank, world, dev):
    """All-reduces of 2 and of all ranks alone, by size: event times of 20 back to back, median of 5."""
    import torch, torch.distributed as dist
    pairs = [dist.new_group([i, i + 1]) for i in range(0, world - 1, 2)]
    for ranks, group in ((2, pairs[rank // 2]), (world, dist.group.WORLD)):
        for mb in (1, 4, 16, 64, 128, 256, 512):
            x = torch.zeros(mb * MB // 4, device=dev)
            times = []
            for i in range(6):
                dist.barrier()
                torch.cuda.synchronize()
                s, e = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                s.record()
                for _ in range(20):
                    dist.all_reduce(x, group=group)
                e.record()
                torch.cuda.synchronize()
                times.append(s.elapsed_time(e) / 20 * 1e3)
            rows.append({"section": ["all_reduce", ranks, mb * MB], "us": statistics.median(times[1:])})


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))] if values else None


def is_collective(op):
    return "nccl" in op[3] or "PtoP" in op[3]


def main_name(ops):
    """The kernel that takes most of a row's time: an op may launch several."""
    total = {}
    for op in ops:
        if "Memset" not in op[3]:
            total[op[3]] = total.get(op[3], 0) + op[1]
    return max(total, key=total.get)


def split(section, ops):
    """The row of kernels and the row beside it; the cast of "cast" is a kernel too, on the stream of collectives."""
    if section[1] != "cast":
        return [o for o in ops if not is_collective(o)], [o for o in ops if is_collective(o)]
    side = next(o[2] for o in ops if o[5] == 128 and o[4] == 40960)
    return [o for o in ops if o[2] != side], [o for o in ops if o[2] == side]


def medians(ops):
    by_name = {}
    for op in ops:
        by_name.setdefault(op[3], []).append(op[1])
    return {name: quantile(d, 0.5) for name, d in by_name.items()}


def summarise(a):
    out = {"command": "torchrun --standalone --nproc-per-node 4 tools/probe_contention.py measure --variant "
                      "nccl|symmetric|copy-engine; tools/probe_contention.py summarise",
           "machine": a.machine, "date": a.date, "unit": "us",
           "columns": ["variant", "kernel", "beside", "alone", "covered_p10", "covered_p50", "covered_p90", "covered",
                       "mean_of_all", "other_alone", "other_beside", "other_waits"],
           "meaning": "a kernel alone; its instances that ran beside the other from start to end, and how many of them; "
                      "the other's median time alone and among kernels, and its median wait between two of them",
           "rows": [], "alone": [], "all_reduce": []}
    for path in sorted(glob.glob(os.path.join(a.dir, "contention_*.json.gz"))):
        with gzip.open(path, "rt") as f:
            data = json.load(f)
        variant, alone = data["head"]["variant"], {}
        out.setdefault("software", data["head"])
        for row in data["rows"]:
            section = row["section"]
            if section[0] == "alone":
                ops = row["ops"]
                collective = any(is_collective(o) for o in ops) or section[1] == "cast"
                alone[section[1]] = medians(ops) if collective else quantile(
                    [o[1] for o in ops if o[3] == main_name(ops)], 0.5)
            elif section[0] == "all_reduce":
                out["all_reduce"].append({"ranks": section[1], "bytes": section[2], "us": round(row["us"], 2)})
            elif section[0] != "error":
                out["rows"] += one_section(variant, section, row["ops"], alone)
        out["alone"].append({"variant": variant, "us": {k: v if not isinstance(v, dict) else round(max(v.values()), 2)
                                                         for k, v in alone.items()}})
    text = json.dumps(out, indent=1)
    # One measurement a line.
    import re
    print(re.sub(r"\[\s+([^\[\]{}]+?)\s+\]", lambda m: "[" + re.sub(r"\s*\n\s*", " ", m[1]) + "]", text))


def one_section(variant, section, ops, alone):
    kernels, others = split(section, ops)
    name = main_name(kernels)
    kernels = [o for o in kernels if o[3] == name]
    spans = [(o[0], o[0] + o[1]) for o in others]

    def overlap(op):
        return sum(max(0, min(e, op[0] + op[1]) - max(b, op[0])) for b, e in spans)
    covered = [o[1] for o in kernels if overlap(o) > 0.97 * o[1]]
    first, last = kernels[0][0], kernels[-1][0] + kernels[-1][1]
    among = [o for o in others if o[0] >= first - 5 and o[0] + o[1] <= last]
    rows = []
    for other, other_alone in alone[section[1]].items():
        mine = [o for o in among if o[3] == other]
        waits = [b[0] - a[0] - a[1] for a, b in zip(mine, mine[1:])]
        r = lambda x: None if x is None else round(x, 2)
        rows.append([variant, section[0], section[1], r(alone[section[0]]), r(quantile(covered, 0.1)),
                     r(quantile(covered, 0.5)), r(quantile(covered, 0.9)), len(covered),
                     r(sum(o[1] for o in kernels) / len(kernels)), r(other_alone),
                     r(quantile([o[1] for o in mine], 0.5)), r(quantile(waits, 0.5))])
    return rows


def main():
    a = parse()
    if a.verb == "measure":
        measure(a)
    else:
        summarise(a)


if __name__ == "__main__":
    main()
