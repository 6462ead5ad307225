"""The recorder on FSDP2 itself, on the CPU with a process group that does nothing. Needs torch 2.6 or later."""

import inspect
import json
import logging
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import recorder_path

try:
    import torch
    from torch.distributed.fsdp import FSDPModule, fully_shard
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)  # SKIP_RETURN_CODE

import fsdp_model
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

import foreshard
import foreshard.collectives
from foreshard import units
from foreshard.about import make_about
from foreshard.environment import describe_environment
from foreshard.model_facts import describe_model, describe_optimizer
from foreshard.rank_barrier import RankBarrier

logging.getLogger("foreshard").setLevel(logging.ERROR)


class CollectivesTest(unittest.TestCase):
    """foreshard.collectives beside the classes of this PyTorch; without a GPU nothing runs."""

    def setUp(self):
        fsdp_model.start()
        self.addCleanup(fsdp_model.stop)

    def test_parameters_on_the_cpu_stay_with_the_process_group(self):
        model = fsdp_model.shard(fsdp_model.Model())
        with self.assertLogs("foreshard", "WARNING"):
            (served,) = foreshard.collectives.enable(model)
        self.assertEqual((served.units, served.all_gather, served.reduce_scatter), (4, "nccl", "nccl"))
        self.assertIn("cpu", served.reason)

    def test_calls_are_those_of_fsdp2(self):
        try:
            from torch.distributed.fsdp._fully_shard import _fsdp_api as api
            from torch.distributed.fsdp._fully_shard import _fsdp_collectives as default
        except ImportError:
            self.skipTest("this PyTorch has no FSDP2 as fully_shard")
        if not hasattr(api, "AllGather"):
            self.skipTest("this PyTorch has no custom collectives (2.8 and later)")
        from foreshard.collectives.comms import ForeshardAllGather, ForeshardReduceScatter

        for ours, base, theirs in (
            (ForeshardAllGather, api.AllGather, default.DefaultAllGather),
            (ForeshardReduceScatter, api.ReduceScatter, default.DefaultReduceScatter),
        ):
            self.assertTrue(issubclass(ours, base))
            self.assertFalse(getattr(ours, "__abstractmethods__", ()))
            for name in ("allocate", "__call__"):
                expected = inspect.signature(getattr(theirs, name)).parameters
                self.assertEqual(list(inspect.signature(getattr(ours, name)).parameters), list(expected), name)


def about_of(model, optimizers=()):
    root = units.find_roots(model)[0]
    described = [describe_optimizer(one) for one in optimizers]
    return make_about(describe_environment(), units.describe_units(root), describe_model(root), described, [], None)


class FsdpTest(unittest.TestCase):
    def setUp(self):
        fsdp_model.start()
        self.addCleanup(fsdp_model.stop)

    def test_units_are_those_of_fully_shard(self):
        model = fsdp_model.shard(fsdp_model.Model())
        found = units.describe_units(units.find_roots(nn.Sequential(model))[0])
        self.assertEqual([one["unit"] for one in found], ["", "layers.0", "layers.1", "layers.2"])
        names = [p["name"] for p in found[0]["groups"][0]["parameters"]]
        self.assertEqual(names, ["tok.weight", "norm.weight", "norm.bias", "head.weight"])
        first = found[1]["groups"][0]["parameters"][0]
        self.assertEqual((first["shape"], first["local_shape"], first["dtype"]), ([16, 8], [16, 8], "float32"))
        group = found[1]["groups"][0]
        self.assertEqual((group["param_dtype"], group["reduce_dtype"]), ("bfloat16", "float32"))
        self.assertEqual((group["mesh"]["shard"], group["mesh"]["replicate"]), (4, 1))

    def test_roots_are_found_among_all_objects(self):
        model = fsdp_model.shard(fsdp_model.Model())
        self.assertIs(next(root for root in units.find_roots() if root is model), model)
        self.assertIsInstance(model, FSDPModule)

    def test_list_units_and_a_root_without_parameters(self):
        model = fsdp_model.Model()
        mesh = fsdp_model.plain_mesh()
        fully_shard(model.tok, mesh=mesh)
        fully_shard([model.norm, model.head], mesh=mesh, reshard_after_forward=False)
        fsdp_model.shard(model, mesh)
        about = about_of(model)
        names = [one["unit"] for one in about["units"]]
        self.assertEqual(names, ["", "tok", "layers.0", "layers.1", "layers.2", "norm, head"])
        self.assertEqual(about["units"][0]["parameters"], [])
        self.assertEqual(about["settings"]["reshard_of_unit"], {"norm, head": False})
        self.assertEqual(about["settings"]["units_per_group"], 1)

    def test_reshard_prefetch_and_async(self):
        for reshard in (True, False, 2):
            model = fsdp_model.shard(fsdp_model.Model(), reshard_after_forward=reshard)
            self.assertEqual(about_of(model)["settings"]["reshard_after_forward"], reshard)
        layers = list(model.layers)
        for i, layer in enumerate(layers):
            layer.set_modules_to_forward_prefetch(layers[i + 1 : i + 2])
        for name in ("_set_unshard_async_op", "set_unshard_async_op"):
            getattr(model, name, lambda value: None)(True)
        settings = about_of(model)["settings"]
        self.assertEqual((settings["forward_prefetch"], settings["backward_prefetch"]), (1, "default"))
        self.assertTrue(settings["unshard_async"])

    def test_hybrid_sharding(self):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
        with mock.patch.dict(os.environ, {"LOCAL_WORLD_SIZE": "4"}):
            about = about_of(fsdp_model.shard(fsdp_model.Model(), mesh))
        self.assertEqual((about["gpus"], about["replicate"]), (4, 2))
        self.assertNotIn("tensor_parallel", about)

    def test_tensor_parallel_parameters(self):
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        model = fsdp_model.Model()
        for layer in model.layers:
            parallelize_module(layer, mesh["tp"], {"first": ColwiseParallel(), "second": RowwiseParallel()})
        fsdp_model.shard(model, mesh["dp"])
        found = units.describe_units(model)
        first = found[1]["groups"][0]["parameters"][0]
        self.assertEqual((first["shape"], first["local_shape"]), ([16, 8], [8, 8]))
        self.assertEqual((first["mesh_dim_names"], first["mesh_shape"]), (["dp", "tp"], [2, 2]))
        self.assertEqual(about_of(model)["tensor_parallel"], 2)

    def test_frozen_parameters(self):
        model = fsdp_model.Model()
        for parameter in model.layers[0].parameters():
            parameter.requires_grad_(False)
        flags = [p["requires_grad"] for p in about_of(fsdp_model.shard(model))["units"][1]["parameters"]]
        self.assertEqual(flags, [False] * 4)

    def test_checkpointed_blocks(self):
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

        model = fsdp_model.Model()
        for i in range(3):
            model.layers[i] = checkpoint_wrapper(model.layers[i])
        about = about_of(fsdp_model.shard(model))
        self.assertEqual(about["settings"]["checkpoint"], "blocks")
        self.assertEqual(about["units"][1]["unit"], "layers.0")
        self.assertEqual(
            about["units"][1]["parameters"][0]["name"], "layers.0._checkpoint_wrapped_module.first.weight"
        )

    def test_ranks_meet_and_nobody_waits_for_one_that_failed(self):
        store = torch.distributed.HashStore()

        def rank(number):
            return mock.patch("foreshard.rank_barrier._rank_and_world", lambda: (number, 2))

        def barrier():
            made = RankBarrier("place")
            made._store = lambda: store
            return made

        with rank(0), self.assertRaises(RuntimeError):
            barrier().wait(0.1)
        with rank(1):
            barrier().arrive()
        with rank(0):
            barrier().wait(20)

    def test_a_loop_with_accumulation(self):
        # Without resharding: FSDP2 of 2.6 gathers a second time on the CPU in a way that autograd refuses.
        model = fsdp_model.shard(fsdp_model.Model(), reshard_after_forward=False)
        optimizer = torch.optim.AdamW(model.parameters())
        with tempfile.TemporaryDirectory() as folder:
            with foreshard.record(folder, model, optimizer, measure=2) as recording:
                for _ in range(7):
                    fsdp_model.train_step(model, optimizer, microbatches=2)
                    recording.step()
            self.assertTrue(recording.done)
            about = json.loads(Path(folder, "about.json").read_text())
            rank = json.loads(Path(folder, "rank00000/rank.json").read_text())
            self.assertTrue(Path(folder, "rank00000/trace.json.gz").exists())
        self.assertEqual((about["batch"], about["seq"]), (2, 5))
        self.assertEqual((about["settings"]["accumulate"], about["settings"]["accumulate_with_sync"]), (2, False))
        self.assertEqual(about["settings"]["optimizer"], "adam")
        self.assertEqual(len(rank["measured"]["host_issue_ms"]), 2)

    def test_the_command(self):
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder, "train.py")
            script.write_text(
                "import sys, torch\n"
                f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
                "import fsdp_model\n"
                "fsdp_model.start()\n"
                "model = fsdp_model.shard(fsdp_model.Model(), reshard_after_forward=False)\n"
                "optimizer = torch.optim.AdamW(model.parameters())\n"
                "for _ in range(int(sys.argv[1])):\n"
                "    fsdp_model.train_step(model, optimizer)\n"
                "print('trained', sys.argv)\n"
            )
            package = Path(foreshard.__file__).parent.parent
            command = [sys.executable, "-m", "foreshard.record", "-o", f"{folder}/rec", "--measure", "2", str(script)]
            done = subprocess.run(
                [*command, "8"], capture_output=True, text=True, env={"PYTHONPATH": str(package), "PATH": "/usr/bin"}
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("trained", done.stdout)
            about = json.loads(Path(folder, "rec/about.json").read_text())
            self.assertEqual(about["settings"]["optimizer"], "adam")
            self.assertEqual((about["batch"], about["seq"]), (2, 5))


if __name__ == "__main__":
    unittest.main()
