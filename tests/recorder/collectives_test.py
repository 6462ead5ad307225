"""foreshard.collectives without a GPU: which memory each request gets, when NCCL serves a call, what is put behind
FSDP2, and how a process ends. torch is a stand-in of these tests alone; groups and library note what they are asked."""

import contextlib
import datetime
import importlib
import sys
import threading
import types
import unittest
from unittest import mock

import recorder_path  # noqa: F401 (finds the package)

from foreshard.collectives import library, rendezvous


class Dtype(str):
    """`str(dtype)` as torch has it."""

    def __str__(self):
        return f"torch.{str.__str__(self)}"


class Tensor:
    def __init__(self, size, dtype, symmetric=False):
        self.size, self.dtype, self.symmetric = size, dtype, symmetric

    def to(self, dtype):
        return self if dtype == self.dtype else Tensor(self.size, dtype)


class Stream:
    def __init__(self, number):
        self.cuda_stream, self.waits = number, []

    def wait_stream(self, other):
        self.waits.append(other.cuda_stream)

    def wait_event(self, event):
        self.waits.append(event)

    def record_event(self):
        return f"event of {self.cuda_stream}"


class FakeGroup:
    """A Group whose calls are a list."""

    ranks, rank, device = 2, 0, "cuda:0"

    def __init__(self):
        self.calls, self.stream = [], Stream(99)

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
    torch.empty = lambda size, dtype, device: Tensor(size, dtype)
    torch.cuda = types.SimpleNamespace(current_stream=lambda device=None: current[0])
    torch.distributed = dist
    dist.Work = type("Work", (), {})
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
        for name in ("foreshard.collectives.comms", "foreshard.collectives.group"):
            sys.modules.pop(name, None)
        self.comms = importlib.import_module("foreshard.collectives.comms")
        self.torch = modules["torch"]
        self.group, self.process_group = FakeGroup(), object()
        logging = mock.patch.object(self.comms.logger, "warning")
        self.warning = logging.start()
        self.addCleanup(logging.stop)


class FakeLibrary:
    """library.Library of a group of one process: every call is in `calls`, `lost` is what watch() raises."""

    path = "libforeshard_collectives.so"

    def __init__(self):
        self.calls, self.lost = [], None

    def open(self, *settings):
        self.calls.append(("open", *settings))
        return 5, b"x"

    def connect(self, handle, addresses):
        self.calls.append(("connect", handle, addresses))

    def select(self, handle):
        self.calls.append(("select", handle))

    def error(self):
        return "rank 1 has no 512 bytes"

    def watch(self, handle, milliseconds):
        threading.Event().wait(0.005)
        if self.lost is not None:
            raise self.lost


class GroupTest(WithTorch):
    """One rank's Group, whose partner answers like it."""

    def setUp(self):
        super().setUp()
        self.module = importlib.import_module("foreshard.collectives.group")
        self.library, self.memory, self.emptied = FakeLibrary(), [], 0
        torch = self.torch
        torch.OutOfMemoryError = type("OutOfMemoryError", (RuntimeError,), {})
        torch.device = object
        torch.empty = self.empty
        allocator = types.SimpleNamespace(allocator=lambda: "allocator")
        torch.cuda = types.SimpleNamespace(
            get_device_properties=lambda device: types.SimpleNamespace(uuid="GPU-0"),
            memory=types.SimpleNamespace(CUDAPluggableAllocator=lambda *names: self.memory.append(names) or allocator),
            MemPool=lambda of: f"pool of {of}", Stream=lambda device, priority: Stream(99),
            use_mem_pool=lambda pool, device: contextlib.nullcontext(self.memory.append(pool)),
            empty_cache=self.empty_cache,
        )  # fmt: skip
        torch.distributed.default_pg_timeout = datetime.timedelta(minutes=10)
        answers = [rendezvous.own_facts(gpu, None) for gpu in ("GPU-0", "GPU-1")]
        rounds = mock.Mock(ask=lambda question, mine: answers if question == "facts" else [mine, mine])
        for patch in (
            mock.patch.object(self.module, "_load", lambda: self.library),
            mock.patch.object(self.module, "_store", lambda group: None),
            mock.patch.object(self.module.rendezvous, "StoreRounds", lambda *of: rounds),
            mock.patch.object(self.module.atexit, "register"),
            mock.patch.object(self.module, "GRACE_S", 0.05),
            mock.patch.object(self.module.logger, "error"),
        ):
            patch.start()
            self.addCleanup(patch.stop)

    def made(self):
        backend = types.SimpleNamespace(options=types.SimpleNamespace(_timeout=datetime.timedelta(seconds=90)))
        process_group = types.SimpleNamespace(size=lambda: 2, rank=lambda: 0, _get_backend=lambda device: backend)
        group = self.module.Group(process_group, types.SimpleNamespace(type="cuda", index=3))
        self.addCleanup(group._close)
        return group

    failures = 0  # of requests to come

    def empty(self, size, dtype, device):
        if self.failures:
            self.failures -= 1
            raise self.torch.OutOfMemoryError
        return size

    def empty_cache(self):
        self.emptied += 1

    def test_it_is_opened_with_the_process_groups_timeout_and_connected(self):
        self.made()
        self.assertEqual(self.library.calls, [("open", 0, 2, 3, 90_000), ("connect", 5, [b"x", b"x"])])
        names = [name.removeprefix("foreshard_collectives_") for name in self.memory[0][1:]]
        self.assertEqual((self.memory[0][0], names), (self.library.path, ["malloc", "free"]))

    def test_memory_is_the_pools_and_a_full_gpu_is_tried_again(self):
        group = self.made()
        self.failures = 1
        self.assertEqual(group.empty([8], "dtype"), (8,))
        self.assertEqual(self.library.calls[-1], ("select", 5))
        self.assertEqual((self.memory[-1], self.emptied), ("pool of allocator", 1))
        self.failures = 2
        with self.assertRaisesRegex(self.torch.OutOfMemoryError, "symmetric memory: rank 1 has no 512 bytes"):
            group.empty([8], "dtype")

    def test_a_lost_rank_ends_the_process_with_its_code(self):
        ended = threading.Event()
        codes = []
        with mock.patch.object(self.module.os, "_exit", side_effect=lambda code: codes.append(code) or ended.set()):
            self.made()
            self.library.lost = library.CollectiveError(14, "rank 1 of the group has ended")
            self.assertTrue(ended.wait(10))
        self.assertEqual(codes, [14])

    def test_a_program_that_ends_stops_watching(self):
        group = self.made()
        group._close()
        self.assertFalse(group._watcher.is_alive())


class CommsTest(WithTorch):
    def gather(self):
        return self.comms.ForeshardAllGather(self.group, self.process_group)

    def scatter(self, factor=None):
        return self.comms.ForeshardReduceScatter(self.group, self.process_group, lambda: factor)

    def test_a_gather_runs_on_the_current_stream(self):
        comm = self.gather()
        output = comm.allocate((8,), dtype=self.torch.bfloat16, device="cuda:0")
        self.assertIsNone(comm(output_tensor=output, input_tensor=output, group=self.process_group, async_op=False))
        self.assertEqual(self.group.calls, [("gather", 7)])

    def test_async_and_the_default_stream_take_the_groups_own(self):
        comm = self.gather()
        output = comm.allocate((8,), dtype=self.torch.bfloat16, device="cuda:0")
        work = comm(output, output, self.process_group, async_op=True)
        self.assertEqual(self.group.calls, [("gather", 99)])
        self.assertEqual((self.group.stream.waits, self.current[0].waits), ([7], []))
        self.assertTrue(work.wait())
        self.assertEqual(self.current[0].waits, ["event of 99"])
        self.current[0] = Stream(0)
        self.assertIsNone(comm(output, output, self.process_group))
        self.assertEqual(self.current[0].waits, ["event of 99"])

    def test_nccl_serves_what_cannot_be_and_says_so_once(self):
        comm = self.gather()
        plain = Tensor((8,), self.torch.bfloat16)
        for _ in range(3):
            self.assertEqual(comm(plain, plain, self.process_group), "work")
        self.assertEqual(comm(comm.allocate((8,), dtype=self.torch.bfloat16, device=""), plain, object()), "work")
        self.assertEqual((self.nccl, self.group.calls), (["gather"] * 4, []))
        self.assertEqual(self.warning.call_count, 2)

    def reduce(self, comm, dtype, op="avg"):
        source = comm.allocate((8,), dtype=dtype, device="cuda:0")
        output = comm.allocate((4,), dtype=dtype, device="cuda:0")
        self.assertTrue(source.symmetric)
        self.assertFalse(output.symmetric)
        comm(output, source, self.process_group, op)

    def test_sums_and_averages(self):
        self.reduce(self.scatter(), self.torch.float32, "sum")
        self.reduce(self.scatter(), self.torch.bfloat16, "avg")
        self.reduce(self.scatter(factor=4.0), self.torch.float16, "premul")
        self.assertEqual(self.group.calls, [("scatter", "torch.float32", "torch.float32", 1.0, 7),
                                            ("scatter", "torch.bfloat16", "torch.bfloat16", 0.5, 7),
                                            ("scatter", "torch.float16", "torch.float16", 0.25, 7)])  # fmt: skip

    def test_float32_sums_take_narrower_gradients_as_they_are(self):
        comm = self.scatter()
        for gradient, expected in (("bfloat16", "bfloat16"), ("float32", "float32"), (None, "float32")):
            comm.gradient_dtype = gradient and getattr(self.torch, gradient)
            self.reduce(comm, self.torch.float32)
            self.assertEqual(self.group.calls.pop(), ("scatter", f"torch.{expected}", "torch.float32", 0.5, 7))
        comm.gradient_dtype = self.torch.float32
        self.reduce(comm, self.torch.bfloat16)
        self.assertEqual(self.group.calls.pop(), ("scatter", "torch.bfloat16", "torch.bfloat16", 0.5, 7))

    def test_what_nccl_reduces_has_the_outputs_dtype(self):
        comm = self.scatter()
        comm.gradient_dtype = self.torch.bfloat16
        self.reduce(comm, self.torch.float32, "max")
        self.reduce(self.scatter(), self.torch.int64)
        self.assertEqual((self.nccl, self.group.calls), (["torch.float32", "torch.int64"], []))


class Module:
    """An FSDP2 module of one parameter group."""

    def __init__(self, process_group, device="cuda", children=()):
        mesh = types.SimpleNamespace(shard_process_group=process_group)
        self.param_group = types.SimpleNamespace(
            mesh_info=mesh, device=types.SimpleNamespace(type=device), gradient_divide_factor=None,
            post_backward=lambda *unused: None, fsdp_params=[],
        )  # fmt: skip
        self.state = types.SimpleNamespace(_fsdp_param_group=self.param_group)
        self.children, self.gather, self.scatter = children, None, None

    def modules(self):
        return [self, *(inner for child in self.children for inner in child.modules())]

    def _get_fsdp_state(self):
        return self.state

    def set_custom_all_gather(self, comm):
        self.gather = comm

    def set_custom_reduce_scatter(self, comm):
        self.scatter = comm


class EnableTest(WithTorch):
    def setUp(self):
        super().setUp()
        sys.modules["torch.distributed.fsdp"].FSDPModule = Module
        self.collectives = importlib.import_module("foreshard.collectives")
        self.made = []

        def group(process_group, device):
            self.made.append(process_group.group_name)
            if process_group.group_name == "far":
                raise rendezvous.Unserved("the ranks are on different hosts")
            return FakeGroup()

        groups = mock.patch.object(sys.modules["foreshard.collectives.group"], "Group", group)
        groups.start()
        self.addCleanup(groups.stop)
        known = mock.patch.dict(self.collectives._groups, clear=True)
        known.start()
        self.addCleanup(known.stop)
        warning = mock.patch.object(self.collectives.logger, "warning")
        warning.start()
        self.addCleanup(warning.stop)

    def named(self, name, ranks=2):
        return types.SimpleNamespace(group_name=name, size=lambda: ranks)

    def test_every_unit_of_every_group(self):
        near, far = self.named("near"), self.named("far", 16)
        experts = Module(far)
        model = Module(near, children=[Module(near), Module(near), experts])
        served = self.collectives.enable(model)
        self.assertEqual([(one.ranks, one.units, one.by) for one in served], [(2, 3, "foreshard"), (16, 1, "nccl")])
        self.assertEqual(served[1].reason, "the ranks are on different hosts")
        self.assertTrue(all(module.gather and module.scatter for module in model.modules() if module is not experts))
        self.assertIsNone(experts.gather)
        self.collectives.enable(Module(near, children=[Module(far)]))
        self.assertEqual(self.made, ["near", "far"])

    def test_one_of_the_two(self):
        model = Module(self.named("near"))
        self.collectives.enable(model, reduce_scatter=False)
        self.assertTrue(model.gather)
        self.assertIsNone(model.scatter)

    def test_reasons_that_need_no_word_of_the_others(self):
        cpu = self.collectives.enable(Module(self.named("near"), device="cpu"))
        self.assertEqual(cpu[0].reason, "the parameters are on cpu")
        whole = self.collectives.enable(Module(None))
        self.assertEqual((whole[0].by, whole[0].reason), ("nccl", "no shard dimension"))
        self.assertEqual(self.made, [])


if __name__ == "__main__":
    unittest.main()
