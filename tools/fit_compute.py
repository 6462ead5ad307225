#!/usr/bin/env python3
"""Fits the constants of sim/compute to a measurement of tools/probe_compute.py and prints the section "compute" of a
machine profile, and the residuals by kind.

    python3 tools/fit_compute.py sim/machine/measured/h200_compute.json [--section FILE] [--rounds 8]

The model is that of docs/compute.md; the functions here mirror sim/compute/*.cpp. The loss is the mean of |log(predicted /
measured)|, each capped at 0.5 so that single kernels of odd choice do not pull; constants move one at a time, up and down,
as long as it falls, by steps that shrink. Tiles and splits are those of the h200 profile. Two things are not from this
measurement, and the section's fitted_on says so: that products at dimension 3072 sustain their rate (a recorded Llama 3B), and
the rotary products of two dtypes ("mixed", the reference runs). Standard library only.
"""
import argparse, json, math, pathlib

PEAKS = {"bfloat16": 989.4e12, "float16": 989.4e12, "tf32": 494.7e12, "float32": 66.9e12, "hbm": 4.8e12, "clock": 1.98e9}
PROFILE = json.loads((pathlib.Path(__file__).parent.parent / "sim/machine/profiles/h200.json").read_text())
TILES = [tuple(tile) for tile in PROFILE["compute"]["tiles"]["shapes"]]
# Measured over predicted while Llama layers run for seconds: by the shortest dimension of the product (1.0 at 2048, 1.15 at
# 4096; at 3072 the products of a reference run show none), and of attention
# (rounded; see sustained_ratios' print). Larger layers keep the matrix units busier and the clocks lower.
SUSTAINED = [[3072, 1.0], [4096, 1.15]]
ATTENTION_SUSTAINED = {"forward": 1.1, "backward": 1.15, "forward_float32": 1.0, "backward_float32": 1.0}
SPLITS = tuple(PROFILE["compute"]["tiles"]["splits"])
BEGIN = {
    "tensor16": dict(efficiency=0.85, half=10, power=1.3, tile=1.6e-6, step=90e-9, split=3.5e-6),
    "tensor32": dict(efficiency=0.9, half=18, power=1.3, tile=3.5e-6, step=90e-9, split=7e-6),
    "vector32": dict(efficiency=0.8, half=8.5, power=1.5, tile=3e-6, step=300e-9, split=3e-6),
    "unaligned16": dict(efficiency=0.15, half=8, power=1.2, tile=3e-6, step=200e-9, split=5e-6),
}
VERBOSE = False
L2 = dict(rate=1.8, share=0.6)


def cap(x):
    return min(abs(math.log(x)), 0.5)


def descend(loss, constants, keys, rounds, least=None, most=None):
    best, step = loss(constants), 0.3
    for _ in range(rounds):
        for key in keys:
            for factor in (1 + step, 1 / (1 + step)):
                while True:
                    trial = dict(constants)
                    trial[key] *= factor
                    if most and trial[key] > most.get(key, 1e99):
                        break
                    value = loss(trial)
                    if value >= best - 1e-6:
                        break
                    constants, best = trial, value
        step *= 0.6
    return constants, best


# --------------------------------------------------------------------------------------------------- memory roofline
def memory_seconds(doc, nbytes, share, l2):
    """Bytes at `share` of the HBM peak; what fits into `share` of the L2 moves at the L2's rate, half as much again at a
    blend of both."""
    limit = l2["share"] * doc["l2_bytes"]
    cold, hot = nbytes / (share * PEAKS["hbm"]), nbytes / (max(l2["rate"], share) * PEAKS["hbm"])
    return hot + (cold - hot) * min(1, max(0, (nbytes - limit) / (0.5 * limit)))


# -------------------------------------------------------------------------------------------------------------- GEMM
def candidates(doc, batch, m, n, k):
    """[(rows, columns, split, waves)] that cuBLAS may choose from."""
    out = []
    for a, b in dict.fromkeys([t for pair in TILES for t in (pair, pair[::-1])]):
        tiles = -(-m // a) * -(-n // b) * batch
        for split in SPLITS:
            if split > 1 and (tiles * split > 2 * doc["sm_count"] or k < 128 * split):
                break
            out.append((a, b, split, -(-tiles * split // doc["sm_count"])))
    return out


def engine(dtype, use, m, n, k):
    """core/kernel/kernel_cost.cpp, gemm_cost: which dimensions lead a matrix in memory."""
    if dtype == "float32":
        return "vector32"
    if dtype == "tf32":
        return "tensor32"
    left = m if use == "wgrad" else k
    unaligned = n % 8 or (left % 8 and left > 64)
    return "unaligned16" if unaligned else "tensor16"


def gemm_seconds(doc, row, choices, c, common):
    dtype, _, batch, m, n, k = row[:6]
    size = 4 if dtype in ("float32", "tf32") else 2
    per_sm = PEAKS[dtype] / doc["sm_count"]
    compute = 1e9
    for a, b, split, waves in choices:
        rate = per_sm * c["efficiency"] / (1 + (c["half"] * (a + b) / (a * b)) ** c["power"])
        steps = -(-(-(-k // split)) // 16) / 4  # of 64
        tile = c["tile"] + steps * max(2 * a * b * 64 / rate, c["step"])
        compute = min(compute, waves * tile + (c["split"] if split > 1 else 0))
    memory = memory_seconds(doc, batch * (m * k + k * n + m * n) * size, common["share32" if dtype == "float32" and min(m, n) <= 64 else "share"],
                            {"rate": 0, "share": L2["share"]} if dtype == "float32" else L2)
    p = common["blend"]
    return common["launch"] + (compute ** p + memory ** p) ** (1 / p)


def fit_gemm(doc, rounds, report):
    rows = [r for r in doc["gemm"] if min(r[3:6]) >= 4]
    groups = {}
    for r in rows:
        groups.setdefault(engine(r[0], r[1], *r[3:6]), []).append((r, candidates(doc, r[2], *r[3:6])))
    common = dict(launch=1.0e-6, blend=6.0, share=0.83, share32=0.5)
    fitted = {}
    def loss_of(name, constants, com):
        return sum(cap(gemm_seconds(doc, r, ch, constants, com) * 1e6 / r[6]) for r, ch in groups[name]) / len(groups[name])
    for turn in range(2):
        for name, begin in BEGIN.items():
            keys = ["efficiency", "half", "power", "tile", "step", "split"]
            if name == "unaligned16":
                keys = ["efficiency", "half", "tile", "step"]
            fitted[name], _ = descend(lambda c: loss_of(name, c, common), fitted.get(name, begin), keys, rounds, most={"efficiency": 1.0})
        common, _ = descend(lambda com: loss_of("tensor16", fitted["tensor16"], com) + loss_of("vector32", fitted["vector32"], com),
                            common, ["launch", "blend", "share", "share32"], rounds)
    for name, pairs in groups.items():
        for least, label in ((0, "all"), (40, "from 40 µs")):
            part = [(r, ch) for r, ch in pairs if r[6] >= least]
            errors = sorted(abs(gemm_seconds(doc, r, ch, fitted[name], common) * 1e6 / r[6] - 1) for r, ch in part)
            report.append((f"product, {name}, {label}", errors))
    return fitted, common


# --------------------------------------------------------------------------------------------------------- attention
def attention_seconds(doc, row, backward, c):
    dtype, causal, b, h, _, s, d = row[:7]
    sms, batch = doc["sm_count"], b * h
    pairs = s * s * 0.5 + s * c["block"] / 2 if causal else s * s
    pairs = min(pairs, s * s)
    by_dim = c["efficiency"]
    dims = sorted(by_dim)
    lo = max((x for x in dims if x <= d), default=dims[0])
    hi = min((x for x in dims if x >= d), default=dims[-1])
    share = by_dim[lo] if lo == hi else by_dim[lo] + (by_dim[hi] - by_dim[lo]) * (d - lo) / (hi - lo)
    flop = (10 if backward else 4) * batch * pairs * d
    units = batch * -(-s // 128)
    idle = -(-units // sms) * sms / units if units < 4 * sms else 1
    return c["launch"] + idle * (flop / (share * PEAKS["float32" if dtype == "float32" else "bfloat16"])
                                 + batch * s * (c["row"] + c["row_dim"] * d))


def fit_attention(doc, rounds, report):
    out = {}
    for dtype in ("bfloat16", "float32"):
        for backward in (False, True):
            rows = [r for r in doc["attention"] if (r[0] == "float32") == (dtype == "float32")]
            def seconds(r):
                if not backward:
                    return r[7]
                return max(k[2] for k in r[10])  # the kernel itself; helpers are memory-bound kernels of their own
            dims = sorted({r[6] for r in rows})
            begin = {"launch": 3e-6, "row": 5e-11, "row_dim": 3e-13, "block": 128}
            begin.update({("e", d): 0.5 for d in dims})
            def model(c):
                return {"launch": c["launch"], "row": c["row"], "row_dim": c["row_dim"], "block": c["block"], "efficiency": {d: c[("e", d)] for d in dims}}
            def loss(c):
                return sum(cap(attention_seconds(doc, r, backward, model(c)) * 1e6 / seconds(r)) for r in rows) / len(rows)
            c, _ = descend(loss, begin, list(begin), rounds + 4)
            key = ("backward" if backward else "forward") + ("_float32" if dtype == "float32" else "")
            out[key] = model(c)
            report.append((f"attention {key}", sorted(abs(attention_seconds(doc, r, backward, out[key]) * 1e6 / seconds(r) - 1) for r in rows)))
    return out


# ----------------------------------------------------------------------------------------------------- memory-bound
def memory_points(doc):
    """(access, elements, bytes, width of the operands, µs) of single kernels."""
    for access, op, dtype, n, nbytes, cold, hot, parts in doc["memory"]:
        width = 2 if dtype == "bfloat16" else 4
        if access in ("chunk_cat", "copy_out", "gather_copy") or op in ("fill", "sum_all", "mean_last") or n < 1 << 17:
            continue
        if op == "rope_cat":  # CatArrayBatchedCopy_vectorized: parts without gaps
            access = "contiguous"
        if op.startswith("log_softmax") and n < 1 << 22:  # fewer rows than SMs
            continue
        elements = n // 2 if op in ("rope_mul",) else n
        us = hot
        if op == "embedding_backward":  # without the fill of the table's gradient
            us = sum(k[2] for k in parts if "Fill" not in k[0])
            nbytes = 2 * n * width
        if op.startswith("optimizer"):
            continue
        yield access, elements, nbytes, width, us, op
    for name, dtype, b, s, h, d, elements, nbytes, us, kernel in doc["strided"]:
        width = 2 if dtype == "bfloat16" else 4
        if name in ("cat_same",):
            continue
        access = "concatenate" if name == "cat_views" else "contiguous" if name == "add_same" else "strided"
        yield access, elements, nbytes, width, us, name
    for nbytes, us, n in optimizer_points(doc):
        yield "multi_tensor", n, nbytes, 4, us, "optimizer"


def optimizer_points(doc):
    """(bytes, µs, elements) of single multi-tensor kernels: SGD's one foreach kernel and fused Adam's, in float32."""
    for access, op, dtype, n, nbytes, cold, hot, parts in doc["memory"]:
        if dtype == "float32" and n >= 1 << 17 and op in ("optimizer_sgd", "optimizer_fused"):
            yield nbytes, max([k[2] for k in parts], default=hot), n


def access_seconds(doc, elements, nbytes, width, c):
    rate = c["elements"] * doc["sm_count"] * PEAKS["clock"]
    first = c.get("chunk", 0) * nbytes / elements * min(1, elements / (1 << 20))  # one block's 65,536 elements
    return c["launch"] + max(memory_seconds(doc, nbytes, c["share"], L2), elements / rate, first)


def fit_memory(doc, rounds, report):
    points = {}
    for p in memory_points(doc):
        points.setdefault(p[0], []).append(p)
    out = {}
    for access, rows in points.items():
        begin = dict(launch=10e-6 if access == "scatter" else 1e-6, share=0.8, elements={"scatter": 0.25, "concatenate": 1.0}.get(access, 2.0))
        keys = ["launch", "share", "elements"]
        if access == "multi_tensor":
            begin["chunk"] = 0.6e-6
            keys.append("chunk")
        def loss(c):
            return sum(cap(access_seconds(doc, e, nb, w, c) * 1e6 / us) for _, e, nb, w, us, _ in rows) / len(rows)
        out[access], _ = descend(loss, begin, keys, rounds + 4, most={"share": 0.95, "elements": 40})
        if VERBOSE:
            for _, e, nb, w, us, op in rows:
                print(access, op, w, e, nb, us, round(access_seconds(doc, e, nb, w, out[access]) * 1e6 / us, 2))
        report.append((f"memory {access}", sorted(abs(access_seconds(doc, e, nb, w, out[access]) * 1e6 / us - 1) for _, e, nb, w, us, _ in rows)))
    return out


# --------------------------------------------------------------------------------------------------------- sustained
def layer_products(dim, ffn, kv, tokens):
    """(m, n, k) of a Llama layer's products in order: forward, then backward (weight, input) from the last to the first."""
    linears = [(dim, dim), (kv, dim), (kv, dim), (dim, dim), (ffn, dim), (ffn, dim), (dim, ffn)]
    forward = [(tokens, o, i) for o, i in linears]
    backward = []
    for o, i in [linears[6], linears[5], linears[4], linears[3], linears[2], linears[1], linears[0]]:
        backward += [(o, i, tokens), (tokens, i, o)]
    return forward, backward


def sustained_ratios(doc, gemm, common):
    """Measured under load over predicted, by the shortest dimension of the product: [(dimension, ratio, µs)]."""
    out = []
    shapes = {"llama-1b-4x2048": (2048, 8192, 512, 8192), "llama-8b-2x2048": (4096, 14336, 1024, 4096), "llama-1b-1x512": (2048, 8192, 512, 512)}
    for key, shape in shapes.items():
        for products, group in zip(layer_products(*shape), doc["sustained"][key]):
            times = [us for name, us in group["kernels"] if "nvjet" in name]
            assert len(times) == len(products), (key, len(times), len(products))
            for (m, n, k), us in zip(products, times):
                predicted = gemm_seconds(doc, ["bfloat16", "", 1, m, n, k], candidates(doc, 1, m, n, k), gemm["tensor16"], common) * 1e6
                out.append((key, m, n, k, us, us / predicted))
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured")
    parser.add_argument("--section", help="write the fitted constants here, as JSON")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--verbose", action="store_true", help="print every memory-bound point")
    a = parser.parse_args()
    global VERBOSE
    VERBOSE = a.verbose
    with open(a.measured) as f:
        doc = json.load(f)
    report = []
    gemm, common = fit_gemm(doc, a.rounds, report)
    attention = fit_attention(doc, a.rounds, report)
    memory = fit_memory(doc, a.rounds, report)
    print("kind                                      points   mean   median   p90   largest")
    for name, errors in report:
        n = len(errors)
        print(f"{name:42s} {n:5d}  {sum(errors) / n:6.1%}  {errors[n // 2]:6.1%} {errors[int(0.9 * n)]:6.1%}  {errors[-1]:6.1%}")
    for row in sustained_ratios(doc, gemm, common):
        print("sustained %-18s m %6d n %6d k %6d  %8.2f µs  measured/predicted %.3f" % row)
    section = profile_section(doc, gemm, common, attention, memory)
    print(json.dumps(section, indent=1))
    if a.section:
        with open(a.section, "w") as f:
            json.dump(section, f, indent=1)


def profile_section(doc, gemm, common, attention, memory):
    """The fitted constants as the section "compute" of a profile: times in SM clocks where they are an SM's work."""
    clock, sms = PEAKS["clock"], doc["sm_count"]
    fitted = "fitted by tools/fit_compute.py to sim/machine/measured/h200_compute.json"
    on = ["compute-probe"]  # of /measurements
    def short(x):
        return float(f"{x:.4g}")
    section = {}
    for key, name, what in (("tensor", "tensor16", "bfloat16 and float16 products"), ("tensor_unaligned", "unaligned16", "bfloat16 products that run on cutlass_75_ and cutlass_80_ kernels"),
                            ("vector", "vector32", "float32 products, TF32 off")):
        c = gemm[name]
        section[key] = {"efficiency": short(c["efficiency"]), "half_intensity": short(c["half"]), "power": short(c["power"]),
                        "tile_clocks": short(c["tile"] * clock), "step_clocks": short(c["step"] * clock), "split_us": short(c["split"] * 1e6),
                        "source": f"{fitted}: {what}", "fitted_on": on}
    section["gemms"] = {"launch_us": short(common["launch"] * 1e6), "memory_share": short(common["share"]), "few_rows_share": short(common["share32"]),
                           "blend": short(common["blend"]), "sustained": SUSTAINED,
                           "source": f"{fitted}; sustained: Llama layers of dimension 2048 (1.0) and 4096 run for seconds, measured over predicted; none at 3072 in a reference run",
                           "fitted_on": on + ["other-recordings"]}
    for name, c in attention.items():
        section["attention_" + name] = {
            "launch_us": short(c["launch"] * 1e6), "row_clocks": short(c["row"] * sms * clock), "row_element_clocks": short(c["row_dim"] * sms * clock),
            "causal_block": short(c["block"]), "efficiency": [[d, short(e)] for d, e in sorted(c["efficiency"].items())],
            "sustained": ATTENTION_SUSTAINED[name],
            "source": f"{fitted}; sustained: rounded from a Llama layer of dimension 2048 run for seconds", "fitted_on": on}
    section["memory"] = {}
    for access in ("contiguous", "strided", "concatenate", "row", "column", "gather", "scatter", "multi_tensor"):
        c = memory[access]
        section["memory"][access] = {"launch_us": short(c["launch"] * 1e6), "memory_share": short(c["share"]), "elements_per_clock": short(c["elements"]),
                                     "chunk_us": short(c.get("chunk", 0) * 1e6), "source": fitted, "fitted_on": on}
    section["memory"]["mixed"] = {"launch_us": 1.3, "memory_share": short(memory["strided"]["share"]), "elements_per_clock": 0.736, "chunk_us": 0,
                                  "source": "the reference runs' rotary products of float32 and bfloat16: 42 to 47 us for 8.4 M elements; the rest as strided",
                                  "fitted_on": ["reference-runs"] + on}
    section["l2"] = {"rate": L2["rate"], "share": L2["share"], "source": "chosen: hot elementwise kernels of 25 MB move 8.7 TB/s beside their launch, those of 50 MB 4.8", "fitted_on": on}
    section["tiles"], section["rules"] = PROFILE["compute"]["tiles"], PROFILE["compute"]["rules"]
    return section


if __name__ == "__main__":
    main()
