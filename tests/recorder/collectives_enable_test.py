"""What foreshard.collectives.enable() puts behind FSDP2's modules, and gives back; without a GPU (fake_torch.py)."""

import gc
import importlib
import os
import sys
import types
import unittest
import weakref
from logging import WARNING
from unittest import mock

from fake_torch import FakeGroup, WithTorch
from foreshard.collectives import rendezvous


class ProcessGroup:
    def __init__(self, name, ranks=2, rank=0):
        self.group_name, self.ranks, self.own = name, ranks, rank

    def size(self):
        return self.ranks

    def rank(self):
        return self.own


class Module:
    """An FSDP2 module of one parameter group."""

    def __init__(self, process_group, device="cuda", children=()):
        mesh = types.SimpleNamespace(shard_process_group=process_group)
        self.param_group = types.SimpleNamespace(
            mesh_info=mesh, device=types.SimpleNamespace(type=device), gradient_divide_factor=None,
            post_backward=lambda *unused: None, fsdp_params=[],
            _all_gather_comm="NCCL's gather", _reduce_scatter_comm="NCCL's sum",
        )  # fmt: skip
        self.state = types.SimpleNamespace(_fsdp_param_group=self.param_group)
        self.children = children

    def modules(self):
        return [self, *(inner for child in self.children for inner in child.modules())]

    def _get_fsdp_state(self):
        return self.state

    def set_custom_all_gather(self, comm):
        self.param_group._all_gather_comm = comm

    def set_custom_reduce_scatter(self, comm):
        self.param_group._reduce_scatter_comm = comm

    def by(self):
        """Whose all-gather and reduce-scatter stand behind it."""
        comms = (self.param_group._all_gather_comm, self.param_group._reduce_scatter_comm)
        return tuple(comm if isinstance(comm, str) else type(comm).__name__ for comm in comms)


class Plain:
    """A module that is none of FSDP2's."""

    def __init__(self, *children):
        self.children = children

    def modules(self):
        return [self, *(inner for child in self.children for inner in child.modules())]


OURS = ("ForeshardAllGather", "ForeshardReduceScatter")
NCCLS = ("NCCL's gather", "NCCL's sum")


class EnableTest(WithTorch):
    def setUp(self):
        super().setUp()
        sys.modules["torch.distributed.fsdp"].FSDPModule = Module
        self.collectives = importlib.import_module("foreshard.collectives")
        self.groups = importlib.import_module("foreshard.collectives.groups")
        self.made = []

        def group(process_group, device):
            self.made.append(process_group.group_name)
            if process_group.group_name == "far":
                raise rendezvous.Unserved("the ranks are on different hosts")
            return FakeGroup()

        for patch in (
            mock.patch.object(self.groups, "Group", group),
            mock.patch.object(self.collectives, "_warned_of_connections", False),
            mock.patch.dict(os.environ, CUDA_DEVICE_MAX_CONNECTIONS="32"),
        ):
            patch.start()
            self.addCleanup(patch.stop)
        self.near = ProcessGroup("near")

    def test_every_unit_of_every_group(self):
        far = ProcessGroup("far", 16)
        experts = Module(far)
        model = Module(self.near, children=[Module(self.near), Module(self.near), experts])
        served = self.collectives.enable(model)
        self.assertEqual(served, [
            self.collectives.Served(2, 3, "foreshard", "foreshard", ""),
            self.collectives.Served(16, 1, "nccl", "nccl", "the ranks are on different hosts"),
        ])  # fmt: skip
        self.assertEqual([module.by() for module in model.modules()], [OURS, OURS, OURS, NCCLS])
        self.collectives.enable(Module(self.near, children=[Module(far)]))
        self.assertEqual(self.made, ["near", "far"])
        self.assertEqual(
            self.said(), [(WARNING, "NCCL serves the collectives of 1 units: the ranks are on different hosts")] * 2
        )

    def test_what_is_not_asked_for_is_given_back(self):
        model = Module(self.near)
        self.assertEqual(self.collectives.enable(model, reduce_scatter=False)[0].reduce_scatter, "nccl")
        self.assertEqual(model.by(), (OURS[0], NCCLS[1]))
        self.collectives.enable(model)
        self.assertEqual(model.by(), OURS)
        served = self.collectives.enable(model, all_gather=False)
        self.assertEqual((served[0].all_gather, served[0].reduce_scatter), ("nccl", "foreshard"))
        self.assertEqual(model.by(), (NCCLS[0], OURS[1]))
        self.collectives.disable(model)
        self.assertEqual(model.by(), NCCLS)
        self.collectives.disable(model)
        self.assertEqual((model.by(), self.made), (NCCLS, ["near"]))

    def test_enabled_twice_post_backward_is_wrapped_once(self):
        model = Module(self.near)
        self.collectives.enable(model)
        wrapped = model.param_group.post_backward
        self.collectives.enable(model)
        self.assertIs(model.param_group.post_backward, wrapped)
        self.assertIs(model.param_group._foreshard_follower, model.param_group._reduce_scatter_comm)
        self.collectives.disable(model)
        self.assertIsNone(model.param_group._foreshard_follower)

    def test_reasons_that_need_no_word_of_the_others(self):
        cpu = self.collectives.enable(Module(self.near, device="cpu"))
        self.assertEqual(cpu[0].reason, "the parameters are on cpu")
        whole = self.collectives.enable(Module(None))
        self.assertEqual((whole[0].all_gather, whole[0].reason), ("nccl", "no shard dimension"))
        self.assertEqual(self.made, [])

    def test_a_model_without_fsdp2_says_what_to_do(self):
        with self.assertRaisesRegex(ValueError, r"call fully_shard\(\) before enable\(\).*FSDP1"):
            self.collectives.enable(Plain(Plain()))

    def test_several_roots_are_warned_of(self):
        self.collectives.enable(Plain(Module(self.near, children=[Module(self.near)])))
        self.assertEqual(self.said(), [])
        self.collectives.enable(Plain(Module(self.near), Module(self.near)))
        self.assertIn("2 FSDP2 modules that no other holds", self.said()[0][1])

    def test_connections_are_warned_of_once_and_only_where_something_is_served(self):
        with mock.patch.dict(os.environ, CUDA_DEVICE_MAX_CONNECTIONS="8"):
            self.collectives.enable(Module(self.near, device="cpu"))
            self.collectives.enable(Module(self.near), all_gather=False, reduce_scatter=False)
            self.assertFalse(any("CONNECTIONS" in text for _, text in self.said()))
            for _ in range(2):
                self.collectives.enable(Module(self.near))
        self.assertEqual(sum("set CUDA_DEVICE_MAX_CONNECTIONS=32" in text for _, text in self.said()), 1)

    def test_a_process_group_that_was_made_anew_gets_a_group_anew(self):
        model = Module(self.near)
        self.collectives.enable(model)
        (first,) = self.groups.connected()
        self.collectives.enable(Module(ProcessGroup("near")))
        self.assertEqual((self.made, first.closed), (["near", "near"], True))
        (second,) = self.groups.connected()
        gc.collect()  # the second process group is gone
        self.collectives.enable(Module(ProcessGroup("other")))
        self.assertTrue(second.closed)
        self.assertEqual(len(self.groups.connected()), 1)

    def test_a_reason_keeps_no_model_alive(self):
        far = ProcessGroup("far")
        model = Module(far)
        self.collectives.enable(model)
        gone = weakref.ref(model)
        del model
        gc.collect()
        self.assertIsNone(gone())


if __name__ == "__main__":
    unittest.main()
