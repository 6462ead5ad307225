"""How the ranks of foreshard.collectives decide whether a group is served, the library's errors and the gradients'
dtype; no torch. The library itself where it was built (FORESHARD_COLLECTIVES_LIBRARY)."""

import json
import os
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


class Sockets:
    """Between the endpoints of a group: connect() waits until all have come or one has closed its end."""

    def __init__(self, ranks):
        self.ranks, self.came, self.closed, self.changed = ranks, 0, [], threading.Condition()

    def come(self, rank):
        with self.changed:
            self.came += 1
            self.changed.notify_all()
            assert self.changed.wait_for(lambda: self.came == self.ranks or self.closed, 10), "a rank keeps all waiting"
            if self.came != self.ranks:
                raise library.CollectiveError(14, f"rank {self.closed[0]} has ended before 'connect'")

    def close(self, rank):
        with self.changed:
            self.closed.append(rank)
            self.changed.notify_all()


class Endpoint:
    """Opens as handle 100 + rank; `fails`: (rank, call) that does not work."""

    def __init__(self, rank, fails=None, sockets=None):
        self.rank, self.fails, self.addresses, self.closed = rank, fails, None, []
        self.sockets = sockets or Sockets(1)

    def check(self, call):
        if self.fails == (self.rank, call):
            raise library.CollectiveError(4, f"{call} does not work")

    def open(self):
        self.check("open")
        return 100 + self.rank, bytes([self.rank])

    def connect(self, handle, addresses):
        self.check("connect")
        self.sockets.come(self.rank)
        self.addresses = addresses

    def close(self, handle):
        self.closed.append(handle)
        self.sockets.close(self.rank)


def meet(ranks, facts_of, endpoints=None):
    """What each rank comes to: its handle, or the reason of Unserved."""
    store, out = Store(), [None] * ranks
    endpoints = endpoints or [Endpoint(rank) for rank in range(ranks)]

    def run(rank):
        try:
            rounds = rendezvous.StoreRounds(store, rank, ranks)
            out[rank] = rendezvous.meet(rounds, facts_of(rank), endpoints[rank])
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
        endpoints = [Endpoint(rank) for rank in range(3)]
        found = meet(3, lambda rank: facts(f"GPU-{rank}"), endpoints)
        self.assertEqual(found, [100, 101, 102])
        self.assertEqual([one.addresses for one in endpoints], [[b"\0", b"\1", b"\2"]] * 3)
        self.assertEqual([one.closed for one in endpoints], [[]] * 3)

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
        for fails, closed in (
            ((1, "open"), [[100], [], [102]]),
            ((0, "connect"), [[100], [101], [102]]),
            ((2, "connect"), [[100], [101], [102]]),
        ):
            sockets = Sockets(3)
            endpoints = [Endpoint(rank, fails, sockets) for rank in range(3)]
            found = meet(3, lambda rank: facts(f"GPU-{rank}"), endpoints)
            self.assertEqual(found, [f"rank {fails[0]}: {fails[1]} does not work"] * 3)
            self.assertEqual([one.closed for one in endpoints], closed)

    def test_the_cause_comes_before_its_consequences(self):
        told = lambda code, text: {"problem": text, "code": code}  # noqa: E731
        good = {"problem": None, "code": 0}
        answers = [told(14, "rank 2 has ended"), good, told(4, "no peer access"), told(15, "rank 0 did not come")]
        self.assertEqual(rendezvous._cause(answers), "rank 2: no peer access")
        self.assertEqual(rendezvous._cause(answers[:2]), "rank 0: rank 2 has ended")
        self.assertIsNone(rendezvous._cause([good, good]))

    def test_how_many_ranks_are_served(self):
        self.assertIn("one rank", rendezvous.verdict([facts("GPU-0")]))
        self.assertIn("at most 8", rendezvous.verdict([facts(f"GPU-{i}") for i in range(9)]))
        self.assertIsNone(rendezvous.verdict([facts(f"GPU-{i}") for i in range(8)]))

    def test_own_facts_are_json(self):
        self.assertEqual(json.loads(json.dumps(rendezvous.own_facts("GPU-0", None)))["abi"], library.ABI)

    def test_a_host_that_is_not_known_is_told_to_all(self):
        with mock.patch.object(rendezvous, "host", side_effect=OSError("/proc is not mounted")):
            mine = rendezvous.own_facts("GPU-1", None)
            self.assertEqual(rendezvous.own_facts("GPU-1", "no library")["problem"], "no library")
        found = meet(2, lambda rank: mine if rank == 1 else facts("GPU-0"))
        self.assertEqual(found, ["rank 1: one host cannot be told from another: /proc is not mounted"] * 2)


class LibraryTest(unittest.TestCase):
    def test_a_missing_library_says_why(self):
        with mock.patch.dict(os.environ, {library.PATH_VARIABLE: "/nowhere/lib.so"}):
            with self.assertRaisesRegex(OSError, "/nowhere/lib.so is missing: the package was built without CUDA"):
                library.load()

    def test_a_library_of_another_version_says_so(self):
        class Older:
            foreshard_collectives_abi = staticmethod(lambda: library.ABI - 1)

        for older, expected in ((Older(), f"interface {library.ABI - 1}"), (object(), "is not this package's library")):
            with mock.patch.object(library.ctypes, "CDLL", lambda path, of=older: of):
                with self.assertRaisesRegex(OSError, expected):
                    library.Library("lib.so")

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
            self.assertEqual((loaded.error_number(), loaded.error()), (error.code, str(error)))
        else:
            self.fail(f"a group on no GPU: {handle}, {address}")
        loaded.select(0)
        self.assertEqual((loaded.error_number(), loaded.error()), (0, ""))


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

    def test_it_is_wrapped_once_and_told_to_one(self):
        group, calls = self.group(self.parameter("bfloat16")), []
        first, second = (types.SimpleNamespace(gradient_dtype=None) for _ in range(2))
        group.post_backward = lambda *unused: calls.append(1)
        gradients.follow(group, first)
        wrapped = group.post_backward
        gradients.follow(group, second)
        self.assertIs(group.post_backward, wrapped)
        group.post_backward()
        self.assertEqual((first.gradient_dtype, second.gradient_dtype, len(calls)), (None, "bfloat16", 1))
        second.gradient_dtype = None
        gradients.follow(group, None)
        group.post_backward()
        self.assertEqual((second.gradient_dtype, len(calls)), (None, 2))


if __name__ == "__main__":
    unittest.main()
