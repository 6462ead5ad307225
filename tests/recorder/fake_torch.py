"""A torch that foreshard.collectives can be imported with, for its tests: tensors are sizes, streams are numbers,
groups and library note what they are asked."""

import importlib
import math
import sys
import threading
import types
import unittest
from unittest import mock

import recorder_path  # noqa: F401 (finds the package)

from foreshard import collectives
from foreshard.collectives import reasons


class Dtype(str):
    """`str(dtype)` as torch has it."""

    def __str__(self):
        return f"torch.{str.__str__(self)}"


class Tensor:
    def __init__(self, size, dtype, symmetric=False):
        self.size, self.dtype, self.symmetric = size, dtype, symmetric

    def numel(self):
        return math.prod(self.size)

    def element_size(self):
        return {"float32": 4, "int64": 8}.get(str.__str__(self.dtype), 2)

    def to(self, dtype):
        return self if dtype == self.dtype else Tensor(self.size, dtype)


class Stream:
    def __init__(self, number):
        self.cuda_stream, self.waits, self.captured = number, [], False

    def wait_stream(self, other):
        self.waits.append(other.cuda_stream)

    def wait_event(self, event):
        self.waits.append(event)

    def record_event(self):
        return f"event of {self.cuda_stream}"


class FakeGroup:
    """A Group whose calls are a list."""

    ranks, rank, device = 2, 0, "cuda:0"

    def __init__(self, rank=0):
        self.calls, self.stream = [], Stream(99)
        self.reasons, self.closed = reasons.Reasons(rank), False

    def close(self):
        self.closed = True

    def empty(self, size, dtype):
        return Tensor(size, dtype, symmetric=True)

    def contains(self, tensor):
        return tensor.symmetric

    def all_gather(self, output, source, stream):
        self.calls.append(("gather", stream))

    def reduce_scatter(self, output, source, scale, stream):
        self.calls.append(("scatter", str(source.dtype), str(output.dtype), scale, stream))


def fake_torch(current, nccl):
    """The modules that comms.py and group.py import, with `current` as current stream and NCCL's calls in `nccl`."""
    torch, dist, api = (types.ModuleType(name) for name in ("torch", "torch.distributed", "api"))
    for name in ("float32", "bfloat16", "float16", "int64"):
        setattr(torch, name, Dtype(name))
    torch.__version__ = "2.11.0+cu130"
    torch.empty = lambda size, dtype, device: Tensor(size, dtype)
    torch.cuda = types.SimpleNamespace(
        current_stream=lambda device=None: current[0], is_current_stream_capturing=lambda: current[0].captured
    )
    torch.distributed = dist
    dist.Work = type("Work", (), {})
    dist.get_rank = lambda: 0
    dist.get_process_group_ranks = lambda group: list(range(group.size()))
    dist.ReduceOp = types.SimpleNamespace(SUM="sum", AVG="avg", PREMUL_SUM="premul", MAX="max")
    dist.all_gather_into_tensor = lambda output, source, group, async_op: nccl.append("gather") or "work"
    dist.reduce_scatter_tensor = lambda output, input, group, op, async_op: nccl.append(str(input.dtype)) or "work"
    api.AllGather = type("AllGather", (), {})
    api.ReduceScatter = type("ReduceScatter", (), {})
    packages = {f"torch.distributed.{name}": types.ModuleType(name) for name in ("fsdp", "fsdp._fully_shard")}
    return {"torch": torch, "torch.distributed": dist, "torch.distributed.fsdp._fully_shard._fsdp_api": api} | packages


class WithTorch(unittest.TestCase):
    def setUp(self):
        self.current, self.nccl = [Stream(7)], []
        modules = fake_torch(self.current, self.nccl)
        patch = mock.patch.dict(sys.modules, modules)
        patch.start()
        self.addCleanup(patch.stop)  # forgets what was imported meanwhile
        for name in ("comms", "group", "groups", "memory"):
            sys.modules.pop(f"foreshard.collectives.{name}", None)
            vars(collectives).pop(name, None)
        self.comms = importlib.import_module("foreshard.collectives.comms")
        self.torch = modules["torch"]
        self.group, self.process_group = FakeGroup(), object()
        logging = mock.patch.object(reasons.logger, "log")
        self.log = logging.start()
        self.addCleanup(logging.stop)

    def said(self):
        """(level, text) of each line of the log."""
        return [(one.args[0], one.args[1] % one.args[2:]) for one in self.log.call_args_list]


class FakeLibrary:
    """library.Library of a group of one process: every call is in `calls`, `lost` is what watch() raises, `failure` the
    number of what malloc said last."""

    path = "libforeshard_collectives.so"

    def __init__(self):
        self.calls, self.lost, self.failure = [], None, 0

    def open(self, *settings):
        self.calls.append(("open", *settings))
        return 5, b"x"

    def connect(self, handle, addresses):
        self.calls.append(("connect", handle, addresses))

    def select(self, handle):
        self.calls.append(("select", handle))

    def error(self):
        return "rank 1 has no 512 bytes" if self.failure else ""

    def error_number(self):
        return self.failure

    def watch(self, handle, milliseconds, grace_ms):
        threading.Event().wait(0.005)
        if self.lost is not None:
            raise self.lost
