"""foreshard.collectives without a GPU: how the ranks decide, what is put behind FSDP2, which memory each request gets
and when NCCL serves a call. torch is a stand-in of these tests alone; the library is a list of what it was asked for,
and the real one where it was built (FORESHARD_COLLECTIVES_LIBRARY)."""

import importlib
import json
import os
import sys
import threading
import types
import unittest
from unittest import mock

import recorder_path  # noqa: F401 (finds the package)

from foreshard.collectives import gradients, library, rendezvous


class Store:
    """A key-value store whose get() blocks, as torch.distributed's."""

    def __init__(self):
        self.values, self.changed = {}, threading.Condition()

    def set(self, key, value):
        with self.changed:
            self.values[key] = value
            self.changed.notify_all()

    def get(self, key):
        with self.changed:
            assert self.changed.wait_for(lambda: key in self.values, 10), key
            return self.values[key]


def facts(gpu, problem=None, **other):
    return {"abi": library.ABI, "host": "a", "gpu": gpu, "problem": problem} | other


def meet(ranks, facts_of, opened=None, connect=None):
    """What each rank comes to: its handle, or the reason of Unserved."""
    store, out = Store(), [None] * ranks

    def run(rank):
        rounds = rendezvous.StoreRounds(store, rank, ranks)
        open_it = (lambda: opened(rank)) if opened else (lambda: (100 + rank, bytes([rank])))
        connect_it = (lambda handle, all_of: connect(rank, all_of)) if connect else (lambda handle, all_of: None)
        try:
            out[rank] = rendezvous.meet(rounds, facts_of(rank), open_it, connect_it)
        except rendezvous.Unserved as error:
            out[rank] = str(error)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return out


class RendezvousTest(unittest.TestCase):
    def test_ranks_of_one_host_are_connected_with_all_addresses(self):
        seen = {}
        found = meet(3, lambda rank: facts(f"GPU-{rank}"), connect=lambda rank, all_of: seen.update({rank: all_of}))
        self.assertEqual(found, [100, 101, 102])
        self.assertEqual(seen, {rank: [b"\0", b"\1", b"\2"] for rank in range(3)})

    def test_a_reason_is_the_same_on_all_ranks(self):
        for expected, facts_of in {
            "different hosts": lambda rank: facts(f"GPU-{rank}", host=str(rank)),
            "two ranks share a GPU": lambda rank: facts("GPU-0"),
            "different versions": lambda rank: facts(f"GPU-{rank}", abi=rank),
            "rank 1: no library": lambda rank: facts(f"GPU-{rank}", "no library" if rank == 1 else None),
        }.items():
            found = meet(2, facts_of)
            self.assertEqual(found[0], found[1])
            self.assertIn(expected, found[0])

    def test_a_rank_that_fails_ends_it_for_all(self):
        def opened(rank):
            if rank == 1:
                raise library.CollectiveError(4, "no such device")
            return 1, b"x"

        def connect(rank, all_of):
            if rank == 0:
                raise library.CollectiveError(4, "cuMemSetAccess (peer access)")

        gpus = lambda rank: facts(f"GPU-{rank}")  # noqa: E731
        self.assertEqual(meet(2, gpus, opened=opened), ["rank 1: no such device"] * 2)
        self.assertEqual(meet(2, gpus, connect=connect), ["rank 0: cuMemSetAccess (peer access)"] * 2)

    def test_how_many_ranks_are_served(self):
        self.assertIn("one rank", rendezvous.verdict([facts("GPU-0")]))
        self.assertIn("at most 8", rendezvous.verdict([facts(f"GPU-{i}") for i in range(9)]))
        self.assertIsNone(rendezvous.verdict([facts(f"GPU-{i}") for i in range(8)]))

    def test_own_facts_are_json(self):
        self.assertEqual(json.loads(json.dumps(rendezvous.own_facts("GPU-0", None)))["abi"], library.ABI)


class LibraryTest(unittest.TestCase):
    def test_a_missing_library_says_why(self):
        with mock.patch.dict(os.environ, {library.PATH_VARIABLE: "/nowhere/lib.so"}):
            with self.assertRaisesRegex(OSError, "/nowhere/lib.so is missing: the package was built without CUDA"):
                library.load()

    @unittest.skipUnless(os.path.exists(os.environ.get(library.PATH_VARIABLE, "")), "the library was not built")
    def test_the_library_says_what_is_wrong(self):
        loaded = library.load()
        with self.assertRaises(library.CollectiveError) as raised:
            loaded.open(0, 1, 0, 1000)
        self.assertEqual(raised.exception.code, 2)
        self.assertEqual(str(raised.exception), "rank 0 of 1; groups of 2 to 8 ranks are served")
        try:
            handle, address = loaded.open(0, 2, 1_000_000, 1000)
        except library.CollectiveError as error:
            self.assertIn("cudaSetDevice", str(error))  # no driver, or no such GPU
        else:
            self.fail(f"a group on no GPU: {handle}, {address}")


class GradientsTest(unittest.TestCase):
    def parameter(self, gradient=None, accumulated=None):
        tensor = lambda dtype: dtype and types.SimpleNamespace(dtype=dtype)  # noqa: E731
        unsharded = types.SimpleNamespace(grad=tensor(gradient))
        return types.SimpleNamespace(
            _unsharded_param=unsharded, unsharded_param=unsharded, unsharded_accumulated_grad=tensor(accumulated)
        )

    def group(self, *parameters):
        return types.SimpleNamespace(fsdp_params=list(parameters))

    def test_the_gradients_dtype_is_that_of_what_will_be_reduced(self):
        of = lambda *parameters: gradients.gradient_dtype(self.group(*parameters))  # noqa: E731
        self.assertEqual(of(self.parameter("bfloat16"), self.parameter("bfloat16")), "bfloat16")
        self.assertEqual(of(self.parameter("bfloat16"), self.parameter()), "bfloat16")
        self.assertEqual(of(self.parameter("bfloat16", accumulated="float32")), "float32")
        self.assertIsNone(of(self.parameter("bfloat16"), self.parameter(accumulated="float32")))
        self.assertIsNone(of(self.parameter(), types.SimpleNamespace()))

    def test_it_is_told_before_each_reduction(self):
        group, comm, seen = self.group(self.parameter("bfloat16")), types.SimpleNamespace(), []
        group.post_backward = lambda *unused: seen.append(comm.gradient_dtype)
        gradients.follow(group, comm)
        group.post_backward()
        group.fsdp_params = [self.parameter(accumulated="float32")]
        group.post_backward("ignored")
        self.assertEqual(seen, ["bfloat16", "float32"])


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
