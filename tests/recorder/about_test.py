"""about.json from what was read of a run: the settings it names, and that foreshard takes it.

FORESHARD_BINARY names the program for the second part.
"""

import copy
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import recorder_path

from foreshard.about import make_about

SAMPLES = recorder_path.REPOSITORY / "traces/samples"
ENVIRONMENT = {
    "torch": "2.11.0+cu130", "nccl": "2.28.9", "gpu": "NVIDIA H200", "sm_count": 132, "world_size": 4,
    "ranks_per_node": 4, "zero_cta": False, "variables": {},
}  # fmt: skip
MODEL = {"checkpointed": [], "checkpointed_selectively": [], "config": None}
ADAM = {"class": "Adam", "torch_class": "Adam", "defaults": {"fused": None, "foreach": None, "amsgrad": False}}


def group(parameters, **changes):
    values = {
        "mesh": {"shard": 4, "replicate": 1}, "reshard_after_forward": True, "param_dtype": "bfloat16",
        "reduce_dtype": "float32", "unshard_async_op": False, "offload_policy": "OffloadPolicy",
        "all_gather_comm": "DefaultAllGather", "reduce_scatter_comm": "DefaultReduceScatter", "parameters": parameters,
    }  # fmt: skip
    return values | changes


def parameter(name, shape=(4, 4), **changes):
    return {"name": name, "shape": list(shape), "dtype": "float32", "requires_grad": True} | changes


def unit(name, parameters, **changes):
    values = {
        "unit": name, "modules": name.split(", "), "forward_prefetch": [], "backward_prefetch": [],
        "reshard_default": False, "groups": [group(parameters)],
    }  # fmt: skip
    return values | changes


def blocks(count=3):
    inner = [unit(f"layers.{i}", [parameter(f"layers.{i}.w")]) for i in range(count)]
    return [unit("", [parameter("tok.weight")])] + inner


def about_of(units=None, model=MODEL, optimizers=(ADAM,), inputs=(), measured=None, **environment):
    return make_about(ENVIRONMENT | environment, units or blocks(), model, list(optimizers), list(inputs), measured)


def settings_of(*args, **kwargs):
    return about_of(*args, **kwargs)["settings"]


class SettingsTest(unittest.TestCase):
    def test_a_communicator_of_the_reduce_scatters(self):
        units = blocks()
        self.assertNotIn("separate_reduce_scatter_group", settings_of(units))
        units[1]["groups"][0]["separate_reduce_scatter_group"] = True
        self.assertIs(settings_of(units)["separate_reduce_scatter_group"], True)

    def test_a_unit_of_several_parameter_groups(self):
        units = blocks()
        units[1]["groups"] = [group([parameter("layers.0.w"), parameter("layers.0.v")]), group([parameter("layers.0.e")])]
        about = about_of(units)
        self.assertEqual([q["name"][-1] for q in about["units"][1]["parameters"]], ["w", "v", "e"])
        self.assertEqual(about["units"][1]["groups"], [2, 1])
        self.assertNotIn("groups", about["units"][2])

    def test_a_parameter_that_is_cut_along_another_dimension(self):
        units = blocks()
        units[1]["groups"] = [group([parameter("layers.0.w", shard_dim=1), parameter("layers.0.v", shard_dim=0)])]
        rows = about_of(units)["units"][1]["parameters"]
        self.assertEqual([row.get("shard_dim") for row in rows], [1, None])

    def test_prefetch_depths_and_lists(self):
        units = blocks(4)
        for i, one in enumerate(units[1:]):
            one["forward_prefetch"] = [f"layers.{j}" for j in range(i + 1, min(i + 3, 4))]
            one["backward_prefetch"] = [f"layers.{j}" for j in range(i - 1, max(i - 2, -1), -1)]
        settings = settings_of(units)
        self.assertEqual((settings["forward_prefetch"], settings["backward_prefetch"]), (2, 1))
        self.assertNotIn("prefetch_lists", settings)
        units[2]["forward_prefetch"] = ["layers.3"]
        settings = settings_of(units)
        self.assertEqual(settings["forward_prefetch"], "implicit")
        self.assertEqual(settings["backward_prefetch"], 1)
        self.assertEqual(list(settings["prefetch_lists"]), ["forward"])
        self.assertEqual(settings["prefetch_lists"]["forward"]["layers.1"], ["layers.3"])

    def test_reshard_of_most_and_of_those_that_differ(self):
        units = blocks()
        self.assertNotIn("reshard_of_unit", settings_of(units))
        units[2]["groups"][0]["reshard_after_forward"] = 2
        units[0]["groups"][0]["reshard_after_forward"] = False
        settings = settings_of(units)
        self.assertIs(settings["reshard_after_forward"], True)
        self.assertEqual(settings["reshard_of_unit"], {"": False, "layers.1": 2})
        units[0]["reshard_default"] = True
        self.assertEqual(settings_of(units)["reshard_of_unit"], {"layers.1": 2})
        self.assertFalse(about_of(units)["root_reshard_explicit"])

    def test_reduce_scatter_inputs_of_the_unit_that_keeps_most(self):
        # test_fully_shard_comm.py, test_reduce_scatter_max_input_buffers_resolves_to_max (2.13)
        units = blocks()
        self.assertNotIn("reduce_scatter_max_input_buffers", settings_of(units))
        units[0]["groups"][0]["reduce_scatter_max_input_buffers"] = None  # before 2.13
        self.assertNotIn("reduce_scatter_max_input_buffers", settings_of(units))
        units[1]["groups"][0]["reduce_scatter_max_input_buffers"] = 3
        units[2]["groups"][0]["reduce_scatter_max_input_buffers"] = 1
        self.assertEqual(settings_of(units)["reduce_scatter_max_input_buffers"], 3)

    def test_groups_of_the_optimizer(self):
        def about(groups, *more):
            return about_of(optimizers=(ADAM | {"param_groups": groups}, *more))

        names = ["layers.0.w", "layers.1.w", "layers.2.w"]
        self.assertEqual(
            about([["tok.weight"], [], names])["optimizer_param_groups"], [["tok.weight"], names]
        )
        self.assertNotIn("optimizer_param_groups", about_of())
        self.assertNotIn("optimizer_param_groups", about([["tok.weight", *names]]))
        self.assertNotIn("optimizer_param_groups", about([["tok.weight"], [None]]))  # of another module
        self.assertNotIn("optimizer_param_groups", about([["tok.weight"], names], ADAM))

    def test_transports(self):
        units = blocks()
        for one in units:
            one["groups"][0] |= {"all_gather_comm": "SymmMemAllGather", "reduce_scatter_comm": "Mine"}
        settings = settings_of(units)
        self.assertEqual(settings["all_gather"], "symmetric")
        self.assertNotIn("reduce_scatter", settings)
        self.assertEqual(settings_of(units, zero_cta=True)["all_gather"], "copy-engine")

    def test_inputs(self):
        def forward(length, reduces=True):
            return {"tensors": [{"name": "x", "shape": [2, length], "dtype": "int64"}], "reduces": reduces}

        about = about_of(inputs=[[forward(16)], [forward(32, False), forward(8)]])
        self.assertEqual((about["batch"], about["seq"]), (2, 32))
        self.assertEqual(about["settings"]["accumulate"], 2)
        self.assertIs(about["settings"]["accumulate_with_sync"], False)
        self.assertNotIn("batch", about_of())
        evaluation = forward(4096) | {"backward": False}
        about = about_of(inputs=[[forward(16) | {"backward": True}, evaluation]])
        self.assertEqual(about["seq"], 16)
        self.assertEqual(about["settings"]["accumulate"], 1)

    def test_optimizers(self):
        def word(kind, **defaults):
            facts = {"class": kind, "torch_class": kind, "defaults": defaults}
            return settings_of(optimizers=[facts]).get("optimizer")

        self.assertEqual(word("AdamW", fused=True), "adam-fused")
        self.assertEqual(word("AdamW", foreach=False), "adam-single")
        self.assertEqual(word("SGD"), "sgd")
        self.assertIsNone(word("SGD", momentum=0.9))
        self.assertIsNone(word("Muon"))
        other = {"class": "AdamW", "torch_class": None, "defaults": {}}  # transformers' or bitsandbytes' own
        self.assertNotIn("optimizer", settings_of(optimizers=[other]))

    def test_checkpointing(self):
        def word(**model):
            return settings_of(model=MODEL | model).get("checkpoint")

        names = [f"layers.{i}" for i in range(3)]
        self.assertIsNone(word())
        self.assertEqual(word(checkpointed=names), "blocks")
        self.assertEqual(word(checkpointed_selectively=[name + ".inner" for name in names]), "selective-op")
        self.assertIsNone(word(checkpointed=names, checkpointed_selectively=names))

    def test_meshes_and_nodes(self):
        units = blocks()
        for one in units:
            one["groups"][0]["mesh"] = {"shard": 4, "replicate": 2}
        # What is outside FSDP's mesh and divides no parameter is pipeline parallelism: one mesh of it is described.
        about = about_of(units, world_size=16, ranks_per_node=8)
        self.assertEqual([about[key] for key in ("gpus", "nodes", "replicate")], [8, 1, 2])
        self.assertNotIn("tensor_parallel", about)
        weight = units[1]["groups"][0]["parameters"][0]
        weight |= {"shape": [64, 32], "local_shape": [32, 32], "mesh_shape": [2, 4, 2]}
        about = about_of(units, world_size=16, ranks_per_node=8)
        self.assertEqual([about[key] for key in ("gpus", "nodes", "replicate", "tensor_parallel")], [8, 2, 2, 2])
        self.assertEqual(about["units"][1]["parameters"][0]["shape"], [32, 32])

    def test_experts_split_over_ranks(self):
        units = blocks()
        experts = parameter("layers.0.experts.w", (8, 32, 16), local_shape=[4, 32, 16], mesh_shape=[2, 2])
        units.insert(2, unit("layers.0.experts", [experts]))
        units[2]["groups"][0]["mesh"] = {"shard": 2, "replicate": 1}
        about = about_of(units)
        self.assertEqual(about["expert_parallel"], 2)
        self.assertNotIn("tensor_parallel", about)
        self.assertEqual(about["gpus"], 4)
        row = about["units"][2]["parameters"][0]
        self.assertEqual((row["shape"], row["expert_parallel"]), ([4, 32, 16], True))
        self.assertNotIn("expert_parallel", about["units"][1]["parameters"][0])

    def test_frozen_parameters_are_named_where_there_are_any(self):
        units = blocks()
        self.assertNotIn("requires_grad", about_of(units)["units"][0]["parameters"][0])
        units[1]["groups"][0]["parameters"][0]["requires_grad"] = False
        flags = [p["requires_grad"] for one in about_of(units)["units"] for p in one["parameters"]]
        self.assertEqual(flags, [True, False, True, True])

    def test_a_root_without_parameters(self):
        units = blocks()
        units[0]["groups"] = []
        about = about_of(units)
        self.assertEqual(about["units"][0], {"unit": "", "parameters": []})


class ReaderTest(unittest.TestCase):
    """foreshard reads what is made, with a recording that it knows."""

    def setUp(self):
        self.binary = os.environ.get("FORESHARD_BINARY")
        if not self.binary:
            self.skipTest("FORESHARD_BINARY is not set")

    def imported(self, about):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "about.json")
            path.write_text(json.dumps(about))
            sample = [f"--{kind}={SAMPLES}/mlp_implicit.{end}" for kind, end in
                      (("snapshot", "pickle.xz"), ("trace", "trace.json.xz"))]  # fmt: skip
            command = [self.binary, "import", *sample, f"--about={path}", "-o", str(Path(folder, "run.db"))]
            return subprocess.run(command, capture_output=True, text=True)

    def test_a_sample_described_by_the_recorder(self):
        given = json.loads((SAMPLES / "mlp_implicit.about.json").read_text())
        units = [
            unit(one["unit"], [p | {"requires_grad": True} for p in one["parameters"]]) for one in given["units"]
        ]
        for one in units:
            one["groups"][0] |= {"param_dtype": None, "reduce_dtype": None}
        forward = {"tensors": [{"name": "0", "shape": [4, 10240], "dtype": "float32"}], "reduces": True}
        about = about_of(units, inputs=[[forward]], measured=given["measured"])
        ours = copy.deepcopy(about)
        for key in ("settings", "schema"):
            del ours[key]
        self.assertEqual(ours, {key: given[key] for key in ours})
        same = {key: given["settings"][key] for key in about["settings"] if key in given["settings"]}
        self.assertEqual(about["settings"], same)
        done = self.imported(about)
        self.assertEqual((done.returncode, done.stderr), (0, done.stderr if "error" not in done.stderr else ""))

    def test_every_setting_is_known(self):
        units = blocks()
        units[1]["forward_prefetch"] = ["layers.2"]
        units[1]["groups"][0]["reshard_after_forward"] = 2
        forward = {"tensors": [], "reduces": True}
        about = about_of(units, inputs=[[forward, forward]])
        about["settings"]["post_optimizer_event"] = True
        done = self.imported(about)
        # The sample is not of this run: every key was read when units and recording are compared.
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("error: ", done.stderr)
        self.assertNotIn("unknown", done.stderr)
        self.assertNotIn("is not a value", done.stderr)


if __name__ == "__main__":
    unittest.main()
