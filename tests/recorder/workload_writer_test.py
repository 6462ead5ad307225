"""The writer of workload files, without torch; FORESHARD_BINARY, where it is given, plans what it writes."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import recorder_path  # noqa: F401
from foreshard.fake import collectives
from foreshard.fake.facts import workload_facts
from foreshard.fake.workload import WorkloadWriter


def write(steps=3):
    """One unit of one parameter; each step frees the loss of the one before, and the first makes a workspace."""
    writer = WorkloadWriter()
    shard = writer.alloc(512, "parameters", size="local_shard", parameter=0)
    loss = None
    for step in range(steps):
        writer.begin_step()
        writer.hook("zero_grad")
        writer.hook("microbatch_begin")
        if step == 0:
            writer.alloc(64)
        x = writer.alloc(4096)
        writer.hook("forward_begin")
        writer.hook("pre_forward", 0)
        if step == 0:
            writer.alloc(1 << 20, "workspaces")
        y = writer.alloc(4096)
        writer.spend(5000)
        writer.kernel("aten::mm", "gemm", math="gemm", math_dtype="float32", m=32, n=32, k=32)
        writer.hook("post_forward", 0)
        older, loss = loss, writer.alloc(4)
        if older is not None:
            writer.free(older)
        writer.hook("forward_end")
        writer.hook("backward_begin")
        writer.hook("pre_backward", 0)
        gradient = writer.alloc(1024)
        gradient.extra["gradient_of"] = 0
        writer.scratch(256, 0, 128)
        writer.free(y)
        writer.hook("backward_final")
        writer.hook("backward_end")
        writer.free(x)
        writer.hook("microbatch_end")
        for hook in ("optimizer_begin", "optimizer_step", "optimizer_end"):
            writer.hook(hook)
    assert shard.program == 0
    return writer.finish(
        {
            "name": "one unit",
            "settings": {"gpus": 2, "optimizer": "adam"},
            "units": [{"name": "", "parameters": [["w", [16, 16], "float32"]]}],
            "shards_known": True,
            "optimizer_known": True,
        }
    )


def allocations(program):
    return {op[1]: op for op in program if op[0] == "alloc"}


def facts_of(about, parameters_order):
    units = [{"unit": "", "parameters": [{"name": name, "dtype": "float32"} for name in "abcd"]}]
    about = {"torch": "2.11", "settings": {}, "root_reshard_explicit": False, "units": units} | about
    shapes = {name: [4] for name in "abcd"}
    gpu = {"gpu": "NVIDIA H200", "sm_count": 132}
    return workload_facts(about, gpu, "M", parameters_order, True, [], [], shapes, [])


class FactsTest(unittest.TestCase):
    def test_parameters_are_in_the_order_of_the_optimizers_groups(self):
        one = facts_of({}, [3, 0, 1, 2])
        self.assertEqual(one["parameters_order"], [3, 0, 1, 2])
        self.assertNotIn("optimizer_param_groups", one)
        two = facts_of({"optimizer_param_groups": [["d"], ["c", "a"]]}, [3, 0, 1, 2])  # b is frozen
        self.assertEqual((two["parameters_order"], two["optimizer_param_groups"]), ([3, 2, 0, 1], [1, 3]))


class WriterTest(unittest.TestCase):
    def test_tensors_have_the_same_numbers_in_every_step(self):
        first, second, third = (allocations(step) for step in write()["steps"])
        self.assertEqual(set(second), set(third))
        extra = set(first) - set(second)
        self.assertEqual(sorted(first[number][2] for number in extra), [64, 1 << 20])

    def test_a_free_names_the_step_of_its_allocation(self):
        frees = [op for op in write()["steps"][2] if op[0] == "free" and len(op) > 3]
        self.assertEqual([op[3] for op in frees], [{"steps_ago": 1}])

    def test_categories_follow_from_lifetimes(self):
        of_size = {op[2]: op[3] for op in write()["steps"][1] if op[0] == "alloc"}
        self.assertEqual(of_size[4], "activations")
        self.assertEqual(of_size[1024], "gradients")
        self.assertEqual((of_size[256], of_size[128]), ("temporaries", "temporaries"))
        self.assertEqual([op[3] for op in write()["steps"][1] if op[0] == "alloc"][0], "inputs")

    def test_host_time_goes_to_the_next_op(self):
        kernels = [op for op in write()["steps"][1] if op[0] == "kernel"]
        self.assertEqual(kernels[0][3], 5000)

    def test_functional_collectives_are_ops_of_their_kind(self):
        class Tensor:
            def numel(self):
                return 1024

            def element_size(self):
                return 2

        class Call:
            def __init__(self, short):
                self.space, self.short, self.name = "_c10d_functional", short, f"_c10d_functional::{short}"
                self.inputs, self.outputs = [Tensor()], [Tensor()]

            def argument(self, name):
                return name

        writer = WorkloadWriter()
        writer.begin_step()
        with mock.patch.object(collectives, "_group", return_value=["cp", 2, 1]):
            for short in ("all_to_all_single", "broadcast_", "all_reduce", "wait_tensor"):
                collectives.write_collective(Call(short), writer)
            with self.assertRaisesRegex(RuntimeError, "all_to_all, broadcast"):
                collectives.write_collective(Call("isend"), writer)
        ops = [op[:4] for op in writer.programs[-1] if op[0] == "collective"]
        kinds = ["all_to_all", "broadcast", "all_reduce"]
        self.assertEqual(ops, [["collective", 0, kind, 2048] for kind in kinds])

    @unittest.skipUnless(os.environ.get("FORESHARD_BINARY"), "FORESHARD_BINARY is not set")
    def test_plan_takes_it(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "one.workload.json")
            path.write_text(json.dumps(write()))
            command = [os.environ["FORESHARD_BINARY"], "plan", str(path), "--machine", "h200", "--json"]
            done = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
