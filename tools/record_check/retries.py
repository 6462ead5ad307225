"""Steps of a process under a memory limit: the time of each, with what the caching allocator gave back in it.

    torchrun --nproc-per-node 1 tools/record_check/retries.py --out OUT --name tight \\
        --length 1024 --batch 4 --memory-limit 30
    torchrun --nproc-per-node 1 tools/record_check/retries.py --calls --out OUT --name calls

--length: tokens of a sample, --steps (24) times; or --lengths: a file with those of each step, a line a step. Rank 0
writes OUT/NAME.json: of each step its length, step_ms (CUDA events behind each step's last kernel), num_alloc_retries,
num_device_free and num_device_alloc of it, and reserved_bytes behind it; and host_forward_ms, the host's time for
forward while the GPU is idle before it (medians of five more steps). --memory-limit: GiB,
torch.cuda.set_per_process_memory_fraction; --fill: GiB that lie beside the allocator in the device's memory, so that
cudaMalloc itself refuses. --profile A:B adds what the driver's calls took in steps A to B, by name, from
torch.profiler; --history A:B the times of segments that go back (before cudaFree) and come (behind cudaMalloc), from
torch.cuda.memory._record_memory_history without stacks. --calls: what cudaMalloc and cudaFree take by size while
nothing runs and beside matrix products, and what the calls of expandable segments do. The program is lengths.py's.
PyTorch 2.11."""

import argparse
import ctypes
import json
import os
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent))
import lengths as program  # noqa: E402

MIB = 1 << 20
GIB = 1 << 30
DRIVER_CALLS = (
    "cudaMalloc", "cudaFree", "cudaDeviceSynchronize", "cudaEventSynchronize", "cudaStreamSynchronize",
    "cudaMemGetInfo", "cuMemCreate", "cuMemMap", "cuMemUnmap", "cuMemSetAccess", "cuMemRelease",
)  # fmt: skip


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--lengths", type=Path)
    parser.add_argument("--length", type=int)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--memory-limit", type=float)
    parser.add_argument("--fill", type=float)
    parser.add_argument("--profile")
    parser.add_argument("--history")
    parser.add_argument("--calls", action="store_true")
    return parser.parse_args()


def run_steps(parsed, device):
    lengths = [parsed.length] * parsed.steps
    if parsed.lengths:
        lengths = [int(line) for line in parsed.lengths.read_text().split("\n") if line and not line.startswith("#")]
    total = torch.cuda.get_device_properties(device).total_memory
    if parsed.memory_limit:
        torch.cuda.set_per_process_memory_fraction(parsed.memory_limit * GIB / total)
    if parsed.fill:
        Runtime().malloc(int(parsed.fill * GIB))
    model = program.build(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-5)
    size = program.SIZE
    head = size["dim"] // size["heads"]
    frequency = 1.0 / (500000.0 ** (torch.arange(0, head, 2, device=device).float() / head))
    angle = torch.outer(torch.arange(max(lengths), device=device).float(), frequency)
    tables = angle.cos(), angle.sin()

    def loss_of(tokens):  # the logits go before backward
        length = tokens.shape[1]
        out = model(tokens, *(tables if length == max(lengths) else [table[:length] for table in tables]))
        zeros = torch.zeros(out.shape[0] * out.shape[1], dtype=torch.long, device=device)
        return F.cross_entropy(out.flatten(0, 1).float(), zeros)

    first, last = (int(n) for n in parsed.profile.split(":")) if parsed.profile else (-1, -1)
    record_from, record_to = (int(n) for n in parsed.history.split(":")) if parsed.history else (-1, -1)
    segments = None
    profiler = None
    rows = []
    before = {"num_alloc_retries": 0, "num_device_free": 0, "num_device_alloc": 0}
    events = [torch.cuda.Event(enable_timing=True)]
    events[0].record()
    failed = None
    for i, length in enumerate(lengths):
        if i == first:
            profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU,
                                                          torch.profiler.ProfilerActivity.CUDA])  # fmt: skip
            profiler.start()
        if i == record_from:
            torch.cuda.memory._record_memory_history(context=None, stacks="python", max_entries=10_000_000)
        torch.cuda.reset_peak_memory_stats()
        try:
            optimizer.zero_grad()
            tokens = torch.randint(0, size["vocab"], (parsed.batch, length), device=device)
            loss = loss_of(tokens)
            loss.backward()
            optimizer.step()
        except torch.OutOfMemoryError as error:
            failed = {"step": i, "error": str(error)[:300]}
            break
        events.append(torch.cuda.Event(enable_timing=True))
        events[-1].record()
        now = torch.cuda.memory_stats()
        rows.append({"length": length, "reserved_bytes": now["reserved_bytes.all.current"],
                     "peak_reserved_bytes": now["reserved_bytes.all.peak"],
                     **{key: now[key] - before[key] for key in before}})  # fmt: skip
        before = {key: now[key] for key in before}
        if i == record_to:
            segments = segment_events(torch.cuda.memory._snapshot()["device_traces"][device.index])
            torch.cuda.memory._record_memory_history(enabled=None)
        if i == last:
            torch.cuda.synchronize()
            profiler.stop()
    torch.cuda.synchronize()
    for row, a, b in zip(rows, events, events[1:], strict=False):
        row["step_ms"] = round(a.elapsed_time(b), 4)
    forward = []
    for _ in range(0 if failed else 5):
        optimizer.zero_grad()
        tokens = torch.randint(0, size["vocab"], (parsed.batch, lengths[-1]), device=device)
        torch.cuda.synchronize()
        begin = time.perf_counter_ns()
        loss = loss_of(tokens)
        forward.append((time.perf_counter_ns() - begin) / 1e6)
        loss.backward()
        optimizer.step()
    result = {"batch": parsed.batch, "gpu": torch.cuda.get_device_name(), "torch": torch.__version__,
              "memory_limit_bytes": int(parsed.memory_limit * GIB) if parsed.memory_limit else None,
              "fill_gib": parsed.fill, "total_memory": total, "out_of_memory": failed, "steps": rows,
              "host_forward_ms": round(statistics.median(forward), 3) if forward else None}  # fmt: skip
    if segments:
        result["segments"] = segments
    if profiler:
        result["profiled"] = calls_of(profiler)
    retries = sum(row["num_alloc_retries"] for row in rows)
    steady = sorted(row["step_ms"] for row in rows[len(rows) // 2 :])
    middle = steady[len(steady) // 2] if steady else 0
    print(f"{parsed.name}: {len(rows)} steps, {retries} retries, median of the later half {middle:.2f} ms, "
          f"host's forward {result['host_forward_ms']} ms, {failed}", flush=True)  # fmt: skip
    return result


def segment_events(trace):
    """[us since the first, action, bytes, us since the entry before] of each segment."""
    out = []
    for before, entry in zip(trace, trace[1:], strict=False):
        if entry["action"].startswith("segment"):
            out.append([entry["time_us"] - trace[0]["time_us"], entry["action"], entry["size"],
                        entry["time_us"] - before["time_us"]])  # fmt: skip
    return out


def calls_of(profiler):
    out = {}
    for event in profiler.profiler.kineto_results.events():
        if event.name() in DRIVER_CALLS:
            out.setdefault(event.name(), []).append([event.start_ns(), event.duration_ns()])
    return {name: sorted(calls) for name, calls in out.items()}


def check(code):
    if code != 0:
        raise RuntimeError(f"CUDA error {code}")


def timed(call, *arguments):
    begin = time.perf_counter_ns()
    code = call(*arguments)
    return (time.perf_counter_ns() - begin) / 1e3, code


def quartiles(values):
    ordered = sorted(values)
    return {"median_us": round(statistics.median(ordered), 2), "p25_us": round(ordered[len(ordered) // 4], 2),
            "p75_us": round(ordered[3 * len(ordered) // 4], 2), "count": len(ordered)}  # fmt: skip


class Runtime:
    """cudaMalloc and cudaFree, each with its time in us."""

    def __init__(self):
        self.library = ctypes.CDLL("libcudart.so.13")

    def try_malloc(self, size):
        address = ctypes.c_void_p()
        us, code = timed(self.library.cudaMalloc, ctypes.byref(address), ctypes.c_size_t(size))
        return us, code, address

    def malloc(self, size):
        us, code, address = self.try_malloc(size)
        check(code)
        return us, address

    def free(self, address):
        us, code = timed(self.library.cudaFree, address)
        check(code)
        return us


def measure_calls(device):
    runtime = Runtime()
    torch.zeros(1, device=device)
    torch.cuda.synchronize()
    rows = []
    for held in (0, 60):
        holding = [runtime.malloc(GIB)[1] for _ in range(held)]
        for mib in (2, 20, 64, 256, 1024, 2048, 4096, 8192, 16384):
            made, freed = [], []
            for _ in range(12):
                us, address = runtime.malloc(mib * MIB)
                made.append(us)
                freed.append(runtime.free(address))
            rows.append({"held_gib": held, "mib": mib, "malloc": quartiles(made), "free": quartiles(freed)})
        # As a retry does: many segments go one after the other, then one is made.
        for mib, count in ((20, 40), (256, 20), (1024, 10)):
            made, freed, again = [], [], []
            for _ in range(4):
                segments = [runtime.malloc(mib * MIB) for _ in range(count)]
                made += [us for us, _ in segments]
                freed += [runtime.free(address) for _, address in segments]
                us, address = runtime.malloc(mib * count * MIB)
                again.append(us)
                runtime.free(address)
            rows.append({"held_gib": held, "mib": mib, "in_a_row": count, "malloc": quartiles(made),
                         "free": quartiles(freed), "malloc_of_all": quartiles(again)})  # fmt: skip
        for address in holding:
            runtime.free(address)
    rows += beside_kernels(device, runtime)
    refused = [runtime.try_malloc(1024 * GIB)[0] for _ in range(12)]
    runtime.library.cudaGetLastError()
    synchronized = [timed(runtime.library.cudaDeviceSynchronize)[0] for _ in range(50)]
    rows.append({"refused": quartiles(refused), "synchronize": quartiles(synchronized)})
    rows += pages()
    for row in rows:
        print(row, flush=True)
    return {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "calls": rows}


def beside_kernels(device, runtime):
    """cudaMalloc while a queue of matrix products runs, and cudaFree once it is done."""
    a = torch.randn(4096, 4096, device=device, dtype=torch.bfloat16)
    out = torch.empty_like(a)
    rows = []
    for mib, count in ((2, 40), (20, 40), (256, 20), (1024, 10)):
        made, freed, launched = [], [], []
        for _ in range(4):
            torch.cuda.synchronize()
            for _ in range(600):  # some 150 ms
                torch.mm(a, a, out=out)
            addresses = []
            for _ in range(count):
                us, address = runtime.malloc(mib * MIB)
                addresses.append(address)
                made.append(us)
                begin = time.perf_counter_ns()
                torch.mm(a, a, out=out)
                launched.append((time.perf_counter_ns() - begin) / 1e3)
            still = not torch.cuda.current_stream().query()
            torch.cuda.synchronize()
            freed += [runtime.free(address) for address in addresses]
        rows.append({"beside_kernels": still, "mib": mib, "in_a_row": count, "malloc": quartiles(made),
                     "free": quartiles(freed), "launch": quartiles(launched)})  # fmt: skip
    return rows


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Properties(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", Location), ("win32", ctypes.c_void_p),
                ("compression", ctypes.c_ubyte), ("rdma", ctypes.c_ubyte), ("usage", ctypes.c_ushort),
                ("reserved", ctypes.c_ubyte * 4)]  # fmt: skip


class Access(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


def pages():
    """As ExpandableSegment::map and unmap: handles of 2 or 20 MiB, mapped one by one, access set for all at once."""
    driver = ctypes.CDLL("libcuda.so.1")
    properties = Properties(type=1, location=Location(1, 0))
    access = Access(Location(1, 0), 3)
    out = []
    for mib, count in ((2, 1), (2, 16), (20, 1), (20, 50), (20, 200)):
        mapped, unmapped = [], []
        for _ in range(6):
            size = mib * MIB
            base = ctypes.c_uint64()
            check(driver.cuMemAddressReserve(ctypes.byref(base), ctypes.c_size_t(size * count), ctypes.c_size_t(0),
                                             ctypes.c_uint64(0), ctypes.c_ulonglong(0)))  # fmt: skip
            begin = time.perf_counter_ns()
            handles = []
            for i in range(count):
                handle = ctypes.c_uint64()
                check(driver.cuMemCreate(ctypes.byref(handle), ctypes.c_size_t(size), ctypes.byref(properties),
                                         ctypes.c_ulonglong(0)))  # fmt: skip
                handles.append(handle)
            for i, handle in enumerate(handles):
                check(driver.cuMemMap(ctypes.c_uint64(base.value + i * size), ctypes.c_size_t(size), ctypes.c_size_t(0),
                                      handle, ctypes.c_ulonglong(0)))  # fmt: skip
            check(driver.cuMemSetAccess(base, ctypes.c_size_t(size * count), ctypes.byref(access), ctypes.c_size_t(1)))
            mapped.append((time.perf_counter_ns() - begin) / 1e3)
            begin = time.perf_counter_ns()
            for i, handle in enumerate(handles):
                check(driver.cuMemUnmap(ctypes.c_uint64(base.value + i * size), ctypes.c_size_t(size)))
                check(driver.cuMemRelease(handle))
            unmapped.append((time.perf_counter_ns() - begin) / 1e3)
            check(driver.cuMemAddressFree(base, ctypes.c_size_t(size * count)))
        out.append({"page_mib": mib, "pages": count, "map": quartiles(mapped), "unmap": quartiles(unmapped)})
    return out


def main():
    parsed = options()
    parsed.out.mkdir(parents=True, exist_ok=True)
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    if parsed.calls:
        result = measure_calls(device)
    else:
        dist.init_process_group("nccl", device_id=device)
        result = run_steps(parsed, device)
    if int(os.environ["RANK"]) == 0:
        (parsed.out / f"{parsed.name}.json").write_text(json.dumps(result) + "\n")
    sys.stdout.flush()
    os._exit(0)


main()
