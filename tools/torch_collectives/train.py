"""Trains the Llama with FSDP2 by one of several collectives and writes step times, losses and memory. torchrun.

train.py --by nccl|symmetric|foreshard --model 8b --seq 512 4096 --compile --no-reshard --graph --out FILE.json

nccl: PyTorch's default. symmetric: gathers in symmetric memory without SMs (NCCL's zero-CTA policy). foreshard:
foreshard.collectives.enable. With --graph, forward and backward are replayed from one CUDA graph. Adam is fused. Step
times are CUDA events around whole steps, the slowest rank's; the median is over --timed steps."""

import argparse
import gc
import json
import os
import statistics
import sys
import time

import llama
import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule


def symmetric_gather(group):
    import torch.distributed._symmetric_memory as symmetric
    from torch.distributed.fsdp._fully_shard._fsdp_api import AllGather

    class SymmetricGather(AllGather):
        def __init__(self):
            symmetric.set_backend("NCCL")
            dist.barrier(group=group)
            self.pool = symmetric.get_mem_pool(torch.device("cuda", torch.cuda.current_device()))

        def allocate(self, size, *, dtype, device):
            with torch.cuda.use_mem_pool(self.pool):
                return torch.empty(*size, dtype=dtype, device=device)

        def __call__(self, output_tensor, input_tensor, group, async_op=False):
            symmetric.rendezvous(output_tensor, group=group.group_name)
            return dist.all_gather_into_tensor(output_tensor, input_tensor, group=group, async_op=async_op)

    return SymmetricGather()


def choose(model, mesh, by):
    if by == "symmetric":
        gather = symmetric_gather(mesh.get_group())
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.set_custom_all_gather(gather)
    elif by == "foreshard":
        import foreshard.collectives

        served = foreshard.collectives.enable(model)
        assert not any(one.reason for one in served), served


class Loop:
    def __init__(self, options, device, model, seq):
        self.model, self.optimizer = model, torch.optim.Adam(model.parameters(), lr=options.lr, fused=True)
        self.batches = llama.Batches(model.size, options.batch, seq, device, dist.get_rank())
        self.losses = []

    def backward(self, tokens):
        loss = self.batches.loss(self.model, tokens)
        loss.backward()
        return loss.detach()

    def eager(self):
        self.optimizer.zero_grad()
        self.losses.append(self.backward(self.batches.next()))
        self.optimizer.step()

    def captured(self):
        """A step whose forward and backward are one graph."""
        tokens = self.batches.next()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.optimizer.zero_grad()
                self.backward(tokens)
                self.optimizer.step()
            self.optimizer.zero_grad()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        torch.cuda.empty_cache()  # the graph's pool is another one
        dist.barrier()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side, capture_error_mode="thread_local"):
            loss = self.backward(tokens)
        torch.cuda.synchronize()
        dist.barrier()

        def step():
            tokens.copy_(self.batches.next())
            graph.replay()
            self.losses.append(loss.clone())
            self.optimizer.step()

        return step


def timed(step, count):
    dist.barrier()
    torch.cuda.synchronize()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    host = []
    events[0].record()
    for i in range(count):
        begin = time.perf_counter()
        step()
        host.append((time.perf_counter() - begin) * 1e3)
        events[i + 1].record()
    torch.cuda.synchronize()
    times = torch.tensor([events[i].elapsed_time(events[i + 1]) for i in range(count)], device="cuda")
    dist.all_reduce(times, dist.ReduceOp.MAX)
    return times.tolist(), host


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--by", default="nccl", choices=["nccl", "symmetric", "foreshard"])
    parser.add_argument("--model", default="8b", choices=list(llama.SIZES))
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seq", type=int, nargs="+", default=[512])
    parser.add_argument("--lr", type=float, default=1e-5)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--no-reshard", action="store_true")
    parser.add_argument("--graph", action="store_true")
    parser.add_argument("--deterministic", action="store_true", help="no atomics: the same bits in every run")
    parser.add_argument("--perturb", action="store_true", help="every parameter an ulp up or down")
    parser.add_argument("--warmup", type=int, default=6)
    parser.add_argument("--timed", type=int, default=20)
    parser.add_argument("--trace", default="", help="a profiler trace of two steps (rank 0)")
    parser.add_argument("--out", required=True)
    options = parser.parse_args()

    if options.deterministic:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        torch.use_deterministic_algorithms(True, warn_only=True)
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    settings = dist.ProcessGroupNCCL.Options()
    if options.by == "symmetric":
        settings.config.cta_policy = dist.ProcessGroupNCCL.NCCL_CTA_POLICY_ZERO
    dist.init_process_group("nccl", pg_options=settings, device_id=device)
    model, mesh = llama.sharded(options.model, device, reshard=not options.no_reshard, compiled=options.compile)
    if options.perturb:
        generator = torch.Generator(device).manual_seed(dist.get_rank())
        for parameter in model.parameters():
            shard = parameter.to_local().detach()
            up = torch.rand(shard.shape, device=device, generator=generator) < 0.5
            shard.copy_(torch.nextafter(shard, torch.where(up, torch.inf, -torch.inf)))
    choose(model, mesh, options.by)
    results = []
    for seq in options.seq:
        loop = Loop(options, device, model, seq)
        for _ in range(options.warmup):
            loop.eager()
        torch.cuda.reset_peak_memory_stats()
        step = loop.captured() if options.graph else loop.eager
        if options.graph:
            step()
            step()
        loop.losses.clear()
        times, host = timed(step, options.timed)
        memory = torch.cuda.memory_stats()
        result = {
            "by": options.by, "model": options.model, "batch": options.batch, "seq": seq, "graph": options.graph,
            "compile": options.compile, "reshard": not options.no_reshard, "gpus": dist.get_world_size(),
            "gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "nccl": torch.cuda.nccl.version(),
            "step_ms": statistics.median(times), "step_ms_least": min(times), "step_ms_most": max(times),
            "host_ms": statistics.median(host), "losses": [loss.item() for loss in loop.losses],
            "peak_allocated_bytes": memory["allocated_bytes.all.peak"],
            "peak_reserved_bytes": memory["reserved_bytes.all.peak"],
        }  # fmt: skip
        results.append(result)
        if dist.get_rank() == 0:
            print(f"{options.by}{' graph' if options.graph else ''} {options.model} 1 x {seq}: "
                  f"{result['step_ms']:.1f} ms ({min(times):.1f} to {max(times):.1f}), host {result['host_ms']:.1f}, "
                  f"loss {result['losses'][-1]:.4f}, reserved {result['peak_reserved_bytes'] / 2**30:.1f} GiB",
                  flush=True)  # fmt: skip
            with open(options.out, "w") as file:
                json.dump(results, file)
        if options.trace:
            from torch.profiler import ProfilerActivity, profile

            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
                step()
                step()
                torch.cuda.synchronize()
            if dist.get_rank() == 0:
                profiler.export_chrome_trace(f"{options.trace}.{seq}.json.gz")
        del loop, step
        gc.collect()
        torch.cuda.empty_cache()
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)  # graphs that hold a communicator's work cannot be destroyed with it


main()
