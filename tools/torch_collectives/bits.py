"""Gathers bit by bit against NCCL's, sums against float64, eagerly and replayed from a CUDA graph. torchrun.

Sizes from one element a rank to 64 MiB in bfloat16 and 128 MiB in float32, odd ones too; bfloat16 and float32, and
bfloat16 summed into float32. Prints a line a kind and ends with 1 where one is wrong."""

import os
import sys

import torch
import torch.distributed as dist
from foreshard.collectives.group import Group

COUNTS = [1, 3, 129, 1000, 4097, 65_536, 1_000_003, 8_388_608, 33_554_431]
PAIRS = [(torch.bfloat16, torch.bfloat16), (torch.float32, torch.float32), (torch.bfloat16, torch.float32)]
ROUNDING = {torch.bfloat16: 2.0**-8, torch.float32: 2.0**-24}  # half a unit in the last place, at most, of a number


class Check:
    def __init__(self):
        self.device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(self.device)
        dist.init_process_group("nccl", device_id=self.device)
        self.group = Group(dist.group.WORLD, self.device)
        self.ranks, self.rank = self.group.ranks, self.group.rank
        self.stream = torch.cuda.Stream()
        self.random = torch.Generator(self.device).manual_seed(self.rank)
        self.wrong = 0

    def fill(self, tensor):
        tensor.copy_(torch.randn(tensor.shape, device=self.device, generator=self.random))

    def gather(self, output, count):
        source = output[self.rank * count : (self.rank + 1) * count]
        self.group.all_gather(output, source, torch.cuda.current_stream().cuda_stream)

    def scatter(self, output, source):
        self.group.reduce_scatter(output, source, 1 / self.ranks, torch.cuda.current_stream().cuda_stream)

    def expect(self, good, what):
        if not good:
            self.wrong += 1
            print(f"rank {self.rank}: wrong: {what}", flush=True)

    def gathered(self, output, count):
        """What NCCL makes of the slices in a copy of `output`, before they are gathered."""
        mine = output[self.rank * count : (self.rank + 1) * count].clone()
        expected = torch.empty_like(output)
        dist.all_gather_into_tensor(expected, mine)
        return expected

    def summed(self, source, count):
        """The averages in float64, and those of the magnitudes."""
        every = torch.empty(self.ranks * source.numel(), dtype=source.dtype, device=self.device)
        dist.all_gather_into_tensor(every, source.clone())
        mine = every.view(self.ranks, -1)[:, self.rank * count : (self.rank + 1) * count]
        return mine.double().sum(0) / self.ranks, mine.double().abs().sum(0) / self.ranks

    def near(self, output, expected):
        """Each element by itself, for it is rounded by itself: ranks - 1 additions in float32, the scale and the
        product with it are each off by a rounding of what is at most the sum of the magnitudes, and the result is
        rounded once more to its dtype. One rounding more is for the products of these."""
        average, magnitude = expected
        bound = ROUNDING[output.dtype] * average.abs() + (self.ranks + 2) * ROUNDING[torch.float32] * magnitude
        return bool(((output.double() - average).abs() <= bound).all())  # NaN is not

    def eager(self):
        for count in COUNTS:
            for dtype in (torch.bfloat16, torch.float32, torch.uint8):
                output = self.group.empty((self.ranks * count,), dtype)
                output.fill_(7)
                mine = output[self.rank * count : (self.rank + 1) * count]
                self.fill(mine) if dtype != torch.uint8 else mine.random_(0, 255, generator=self.random)
                expected = self.gathered(output, count)
                self.gather(output, count)
                self.expect(torch.equal(output.view(torch.uint8), expected.view(torch.uint8)), f"{count} {dtype}")
            for narrow, wide in PAIRS:
                source = self.group.empty((self.ranks * count,), narrow)
                self.fill(source)
                expected = self.summed(source, count)
                output = torch.full((count,), float("nan"), dtype=wide, device=self.device)
                self.scatter(output, source)
                self.expect(self.near(output, expected), f"{count} {narrow} to {wide}")

    def repeated(self, times):
        """Many calls without a word between them, so that a missing wait shows."""
        count = 300_001
        output = self.group.empty((self.ranks * count,), torch.float32)
        source = self.group.empty((self.ranks * count,), torch.float32)
        result = torch.empty(count, dtype=torch.float32, device=self.device)
        bad = torch.zeros((), dtype=torch.int64, device=self.device)
        for turn in range(times):
            output[self.rank * count : (self.rank + 1) * count] = turn * 10 + self.rank
            self.gather(output, count)
            for rank in range(self.ranks):
                bad += (output[rank * count : (rank + 1) * count] != turn * 10 + rank).sum()
            source.fill_(turn + self.rank)
            self.scatter(result, source)
            bad += (result != turn + (self.ranks - 1) / 2).sum()
        self.expect(bad.item() == 0, f"{bad.item()} elements of {times} calls in a row")

    def replayed(self, times):
        """Captured once, replayed with other contents; with eager calls between the replays."""
        count = 100_003
        output = self.group.empty((self.ranks * count,), torch.bfloat16)
        source = self.group.empty((self.ranks * count,), torch.bfloat16)
        result = torch.empty(count, dtype=torch.float32, device=self.device)
        torch.cuda.synchronize()
        dist.barrier()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream, capture_error_mode="thread_local"):
            self.gather(output, count)
            self.scatter(result, source)
        torch.cuda.synchronize()
        dist.barrier()
        for turn in range(times):
            self.fill(output[self.rank * count : (self.rank + 1) * count])
            self.fill(source)
            expected, total = self.gathered(output, count), self.summed(source, count)
            graph.replay()
            self.expect(torch.equal(output, expected), f"replay {turn} of the gather")
            self.expect(self.near(result, total), f"replay {turn} of the sum")
            if turn % 3 == 0:
                self.gather(output, count)
        self.fill(output)
        self.fill(source)
        expected, total = self.gathered(output, count), self.summed(source, count)
        result.fill_(float("nan"))
        for _ in range(times):
            graph.replay()
        self.expect(torch.equal(output, expected), f"the gather after {times} replays in a row")
        self.expect(self.near(result, total), f"the sum after {times} replays in a row")

    def pool(self):
        """Whether memory of the group is had while a graph is captured."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream, capture_error_mode="thread_local"):
            made = self.group.empty((1 << 20,), torch.bfloat16)
            held = self.group.contains(made)
        self.expect(held, "memory of a capture is not symmetric")


def main():
    check = Check()
    for name, part in (
        ("eager", check.eager),
        ("repeated", lambda: check.repeated(200)),
        ("replayed", lambda: check.replayed(20)),
        ("pool", check.pool),
    ):
        before = check.wrong
        with torch.cuda.stream(check.stream):
            part()
        torch.cuda.synchronize()
        print(f"rank {check.rank}: {name}: {'ok' if check.wrong == before else 'WRONG'}", flush=True)
    sys.stdout.flush()
    os._exit(1 if check.wrong else 0)  # graphs that hold a communicator's work cannot be destroyed with it


main()
