"""How a group of foreshard.collectives is made, where its memory comes from, and how a process ends; without a GPU
(fake_torch.py)."""

import contextlib
import datetime
import importlib
import sys
import threading
import types
import unittest
from unittest import mock

from fake_torch import Dtype, FakeLibrary, Stream, WithTorch
from foreshard.collectives import library, rendezvous


class GroupTest(WithTorch):
    """One rank's Group, whose partner answers like it."""

    def setUp(self):
        super().setUp()
        self.module = importlib.import_module("foreshard.collectives.group")
        self.native, self.memory, self.emptied, self.logged = FakeLibrary(), [], 0, []
        torch = self.torch
        torch.uint8 = Dtype("uint8")
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
        self.facts = None

        def ask(question, mine):
            if question != "facts":
                return [mine, mine]
            self.facts = mine
            return [mine if mine["problem"] else answers[0], answers[1]]

        rounds = mock.Mock(ask=ask)
        for patch in (
            mock.patch.object(library, "load", lambda: self.native),
            mock.patch.object(self.module, "_store", lambda group: None),
            mock.patch.object(self.module.rendezvous, "StoreRounds", lambda *of: rounds),
            mock.patch.object(self.module.atexit, "register"),
            mock.patch.object(self.module.logger, "error", lambda *text: self.logged.append(text[0] % text[1:])),
        ):
            patch.start()
            self.addCleanup(patch.stop)

    def made(self):
        backend = types.SimpleNamespace(options=types.SimpleNamespace(_timeout=datetime.timedelta(seconds=90)))
        process_group = types.SimpleNamespace(size=lambda: 2, rank=lambda: 0, _get_backend=lambda device: backend)
        group = self.module.Group(process_group, types.SimpleNamespace(type="cuda", index=3))
        self.addCleanup(group.close)
        return group

    failures, failure = 0, 10  # requests to come that fail, and the library's number for it
    refusal = None  # what a pool of an own allocator raises

    def empty(self, size, dtype, device):
        if self.refusal:
            raise self.refusal
        if self.failures:
            self.failures -= 1
            self.native.failure = self.failure
            raise self.torch.OutOfMemoryError("CUDA out of memory")
        return size

    def empty_cache(self):
        self.emptied += 1

    def test_it_is_opened_with_the_process_groups_timeout_and_connected(self):
        self.made()
        self.assertEqual(self.native.calls, [("open", 0, 2, 3, 90_000), ("connect", 5, [b"x", b"x"])])
        names = [name.removeprefix("foreshard_collectives_") for name in self.memory[0][1:]]
        self.assertEqual((self.memory[0][0], names), (self.native.path, ["malloc", "free"]))

    def test_memory_is_the_pools_and_a_full_gpu_is_tried_again(self):
        group = self.made()
        self.failures = 1
        self.assertEqual(group.empty([8], "dtype"), (8,))
        self.assertEqual(self.native.calls[-1], ("select", 5))
        self.assertEqual((self.memory[-1], self.emptied), ("pool of allocator", 1))
        self.failures = 2
        with self.assertRaisesRegex(self.torch.OutOfMemoryError, "symmetric memory: rank 1 has no 512 bytes"):
            group.empty([8], "dtype")

    def test_where_memory_was_not_missing_it_says_what_was(self):
        group = self.made()
        for number in (14, 15, 4):
            self.failures, self.failure, before = 1, number, self.emptied
            with self.assertRaises(library.CollectiveError) as raised:
                group.empty([8], "dtype")
            self.assertEqual((raised.exception.code, self.failures, self.emptied), (number, 0, before))
            self.assertNotIsInstance(raised.exception, self.torch.OutOfMemoryError)
        self.failures, self.failure = 2, 0  # PyTorch's own limit: the library was not asked
        with self.assertRaisesRegex(self.torch.OutOfMemoryError, "symmetric memory: CUDA out of memory"):
            group.empty([8], "dtype")

    def unserved(self):
        with self.assertRaises(rendezvous.Unserved) as raised:
            self.made()
        self.assertEqual(str(raised.exception), f"rank 0: {self.facts['problem']}")
        return self.facts["problem"]

    def test_an_older_pytorch_is_a_problem_that_all_hear_of(self):
        for version, served in (("2.10.1", False), ("2.9.0+cu130", False), ("unknown", False), ("2.12.0a0+git", True)):
            self.torch.__version__ = version
            if served:
                self.made()
            else:
                self.assertEqual(self.unserved(), f"PyTorch {version}; 2.11 or later is needed")

    def test_no_library_is_a_problem_that_all_hear_of(self):
        with mock.patch.object(library, "load", side_effect=OSError("lib.so has interface 1")):
            self.assertEqual(self.unserved(), "lib.so has interface 1")

    def test_expandable_segments_are_served_where_a_pool_asks_its_allocator(self):
        with mock.patch.dict("os.environ", PYTORCH_ALLOC_CONF="max_split_size_mb:64, expandable_segments: True"):
            self.failures, self.failure = 1, 2
            self.made()
            self.assertEqual(self.native.calls[0], ("select", 0))
            self.assertIn("a MemPool of this PyTorch does not ask its allocator", self.unserved())
            self.refusal = RuntimeError("no expandable segments in a MemPool\nsecond line")
            self.assertEqual(self.unserved(), "expandable_segments: no expandable segments in a MemPool")
        self.made()

    def test_a_lost_rank_ends_the_process_with_its_code(self):
        ended = threading.Event()
        codes = []
        with mock.patch.object(self.module.os, "_exit", side_effect=lambda code: codes.append(code) or ended.set()):
            self.made()
            self.native.lost = library.CollectiveError(14, "rank 1 of the group has ended")
            self.assertTrue(ended.wait(10))
        self.assertEqual(codes, [14])
        self.assertEqual(self.logged, ["rank 1 of the group has ended: this process ends with code 14"])

    def test_it_ends_also_where_nobody_reads(self):
        closed = mock.Mock(flush=mock.Mock(side_effect=BrokenPipeError))
        with mock.patch.object(self.module.os, "_exit") as ended, mock.patch.object(sys, "stdout", closed):
            self.module._end_process(library.CollectiveError(15, "rank 0 waits"))
        ended.assert_called_once_with(15)

    def test_a_program_that_ends_stops_watching(self):
        group = self.made()
        group.close()
        self.assertFalse(group._watcher.is_alive())


if __name__ == "__main__":
    unittest.main()
