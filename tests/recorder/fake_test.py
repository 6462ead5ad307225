"""Fake recordings of FSDP2 itself. Needs torch 2.6 or later, and no GPU."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import recorder_path  # noqa: F401

try:
    import torch
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)  # SKIP_RETURN_CODE

import foreshard
from torch import nn
from torch.distributed.device_mesh import init_device_mesh


class Mlp(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc1 = nn.Linear(dim, dim, bias=False)
        self.gelu = nn.GELU()
        self.fc2 = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        return self.fc2(self.gelu(self.fc1(x)))


class Stack(nn.Module):
    """pytorch#147168's model: core/models/mlp.cpp writes the same."""

    def __init__(self, dim, layers):
        super().__init__()
        self.pre_norm = nn.LayerNorm(dim, bias=False)
        self.layers = nn.ModuleList([Mlp(dim) for _ in range(layers)])
        self.post_norm = nn.LayerNorm(dim, bias=False)

    def forward(self, x):
        x = self.pre_norm(x)
        for layer in self.layers:
            x = x + layer(x)
        return self.post_norm(x)


def record(train, world_size=4, **options):
    """The workload of `train(fake)`, which trains until fake.done."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.workload.json")
        with foreshard.record_fake(path, world_size=world_size, **options) as fake:
            train(fake)
        return json.loads(path.read_text())


def sharded(model, policy=None, world_size=4):
    mesh = init_device_mesh("cuda", (world_size,))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy or MixedPrecisionPolicy())
    fully_shard(model, mesh=mesh, mp_policy=policy or MixedPrecisionPolicy())
    return model.to_empty(device="cuda")


def stack(fake, policy=None, grouped=lambda parameters: parameters):
    with torch.device("meta"):
        model = Stack(64, 2)
    model = sharded(model, policy)
    optimizer = torch.optim.Adam(grouped(list(model.parameters())))
    while not fake.done:
        optimizer.zero_grad()
        model(torch.randn((8, 64), device="cuda")).mean().backward()
        optimizer.step()


def hooks(step):
    return [(op[1], op[2]) for op in step if op[0] == "hook" and op[1].startswith(("pre_", "post_", "backward_final"))]


class FakeTest(unittest.TestCase):
    def test_units_shards_and_settings(self):
        workload = record(stack)
        self.assertEqual([unit["name"] for unit in workload["units"]], ["", "layers.0", "layers.1"])
        self.assertEqual(workload["parameters_order"], [0, 2, 3, 4, 5, 1])
        self.assertEqual((workload["settings"]["gpus"], workload["settings"]["optimizer"]), (4, "adam"))
        shards = [op[-1]["parameter"] for op in workload["setup"] if op[0] == "alloc" and op[3] == "parameters"]
        self.assertEqual(shards, [0, 2, 3, 4, 5, 1])

    def test_groups_of_the_optimizer(self):
        def grouped(parameters):
            decays = [p for p in parameters if p.ndim > 1]
            others = [p for p in parameters if p.ndim <= 1]
            return [{"params": decays, "weight_decay": 0.1}, {"params": others}]

        workload = record(lambda fake: stack(fake, grouped=grouped))
        self.assertEqual(workload["parameters_order"], [2, 3, 4, 5, 0, 1])
        self.assertEqual(workload["optimizer_param_groups"], [4, 2])

    def test_hooks_are_where_fsdp2_acts(self):
        forward = [("pre_forward", 0)]
        for unit in (1, 2):
            forward += [("pre_forward", unit), ("post_forward", unit)]
        forward.append(("post_forward", 0))
        backward = [("pre_backward", 0)]
        for unit in (2, 1):
            backward += [("pre_backward", unit), ("post_backward", unit)]
        backward.append(("backward_final", 0))
        for step in record(stack)["steps"]:
            self.assertEqual(hooks(step), forward + backward)

    def test_allocations_are_the_users_alone(self):
        step = record(stack)["steps"][2]
        made = [(op[2], op[3]) for op in step if op[0] == "alloc"]
        row, matrix, vector = 8 * 64 * 4, 64 * 64 * 4, 64 * 4
        gradients = [size for size, category in made if category == "gradients"]
        self.assertEqual(sorted(gradients), [vector] * 2 + [matrix] * 4)
        self.assertEqual(made[0], (row, "inputs"))
        self.assertNotIn("workspaces", [category for _, category in made])
        of = {op[-1]["gradient_of"] for op in step if op[0] == "alloc" and op[3] == "gradients"}
        self.assertEqual(of, set(range(6)))

    def test_allocations_name_their_module(self):
        step = record(stack)["steps"][2]
        made = [(op[3], op[-1].get("module") if isinstance(op[-1], dict) else None) for op in step if op[0] == "alloc"]
        self.assertEqual(made[0], ("inputs", None))
        self.assertIn(("activations", "layers.0.fc1"), made)
        self.assertIn(("activations", "layers.1.gelu"), made)
        self.assertIn(("temporaries", "layers.1.gelu"), made)  # its backward
        self.assertIn(("gradients", "layers.0.fc2"), made)
        self.assertEqual(made[-1][1], "pre_norm")  # the last of backward

    def test_gradients_are_added_in_place_where_autograd_does(self):
        labels = [op[4] for op in record(stack)["steps"][2] if op[0] == "kernel"]
        self.assertIn("aten::add_", labels)  # the residual's

    def test_mixed_precision_casts_inputs_for_their_unit(self):
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        workload = record(lambda fake: stack(fake, policy))
        made = [op for op in workload["steps"][1] if op[0] == "alloc" and isinstance(op[-1], dict)]
        casts = [op for op in made if "unit" in op[-1]]
        self.assertEqual([(op[2], op[-1]["unit"]) for op in casts], [(8 * 64 * 2, 0)])
        self.assertEqual(workload["settings"]["param_dtype"], "bfloat16")

    def test_tensor_parallel_blocks(self):
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        def train(fake):
            mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("dp", "tp"))
            with torch.device("meta"):
                model = Stack(64, 2)
            for layer in model.layers:
                parallelize_module(layer, mesh["tp"], {"fc1": ColwiseParallel(), "fc2": RowwiseParallel()})
                fully_shard(layer, mesh=mesh["dp"])
            fully_shard(model, mesh=mesh["dp"])
            model.to_empty(device="cuda")
            optimizer = torch.optim.Adam(model.parameters())
            while not fake.done:
                optimizer.zero_grad()
                model(torch.randn((8, 64), device="cuda")).mean().backward()
                optimizer.step()

        workload = record(train)
        self.assertEqual(workload["settings"]["tensor_parallel"], 2)
        self.assertEqual(workload["units"][1]["parameters"][0][1], [32, 64])
        self.assertEqual([group[1:] for group in workload["process_groups"]], [[2, 1]])
        collectives = [op[2] for op in workload["steps"][2] if op[0] == "collective"]
        self.assertEqual(collectives, ["all_reduce"] * 4)  # of each block forward and backward
        gradients = [op for op in workload["steps"][2] if op[0] == "alloc" and op[3] == "gradients"]
        self.assertEqual({op[-1]["gradient_of"] for op in gradients}, set(range(6)))

    def test_the_default_mesh_is_of_gpus(self):
        def train(fake):
            with torch.device("meta"):
                model = Stack(64, 2)
            for layer in model.layers:
                fully_shard(layer)
            fully_shard(model)
            model.to_empty(device="cuda")
            optimizer = torch.optim.Adam(model.parameters())
            while not fake.done:
                optimizer.zero_grad()
                model(torch.randn((8, 64), device="cuda")).mean().backward()
                optimizer.step()

        self.assertEqual(record(train)["steps"], record(stack)["steps"])

    def test_the_world_may_be_large(self):
        self.assertEqual(record(stack_of_64, world_size=64)["settings"]["nodes"], 8)

    def test_a_model_that_was_built_outside(self):
        """On the CPU, with its optimizer; blocks become units."""
        model = Stack(64, 2)
        optimizer = torch.optim.AdamW(model.parameters())
        with tempfile.TemporaryDirectory() as folder:
            with foreshard.record(folder, model, optimizer, fake=True, world_size=16) as recording:
                while not recording.done:
                    optimizer.zero_grad()
                    model(torch.randn((8, 64)).to("cuda")).mean().backward()
                    optimizer.step()
                    recording.step()
            workload = json.loads(Path(folder, "fake.workload.json").read_text())
        self.assertEqual([unit["name"] for unit in workload["units"]], ["", "layers.0", "layers.1"])
        self.assertEqual((workload["settings"]["gpus"], workload["settings"]["nodes"]), (8, 2))
        self.assertTrue(any(op[0] == "copy" and op[1] == "host_to_device" for op in workload["steps"][2]))

    def test_the_command(self):
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder, "train.py")
            script.write_text(
                "import sys, torch, torch.distributed as dist\n"
                f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
                "from fake_test import Stack, sharded\n"
                "dist.init_process_group('nccl')\n"
                "model = sharded(Stack(64, 2), world_size=dist.get_world_size())\n"
                "optimizer = torch.optim.AdamW(model.parameters())\n"
                "while True:\n"
                "    optimizer.zero_grad()\n"
                "    model(torch.randn((8, 64), device='cuda')).mean().backward()\n"
                "    optimizer.step()\n"
            )
            package = Path(foreshard.__file__).parent.parent
            command = [sys.executable, "-W", "ignore", "-m", "foreshard.record", "-o", f"{folder}/rec", "--fake"]
            done = subprocess.run(
                [*command, "--world-size", "64", str(script)],
                capture_output=True,
                text=True,
                env={"PYTHONPATH": str(package), "PATH": "/usr/bin"},
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            workload = json.loads(Path(folder, "rec/fake.workload.json").read_text())
            self.assertEqual(workload["settings"]["nodes"], 8)

    def test_checkpointed_blocks_run_again_with_the_same_attention(self):
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.project = nn.Linear(64, 192)

            def forward(self, x):
                q, k, v = self.project(x).view(2, 16, 4, 48).transpose(1, 2).chunk(3, dim=-1)
                out = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
                return x + out.transpose(1, 2).reshape(2, 16, 64)

        def train(fake):
            with torch.device("meta"):
                model = Stack(64, 0)
                model.layers = nn.ModuleList([checkpoint_wrapper(Attention()) for _ in range(2)])
            policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
            model = sharded(model, policy)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            while not fake.done:
                optimizer.zero_grad()
                model(torch.randn((2, 16, 64), device="cuda")).mean().backward()
                optimizer.step()

        for capability, name in (((9, 0), "cudnn"), ((8, 0), "flash")):
            workload = record(train, capability=capability)
            labels = [op[4] for op in workload["steps"][2] if op[0] == "kernel"]
            attention = f"aten::_scaled_dot_product_{name}_attention"
            self.assertEqual((labels.count(attention), labels.count(attention + "_backward")), (4, 2))
            self.assertEqual(workload["settings"]["checkpoint"], "blocks")

    def test_attention_with_a_learned_bias(self):
        """cuDNN's kernel has no gradient of it."""

        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.project = nn.Linear(64, 192)
                self.bias = nn.Parameter(torch.empty(4, 16, 16))

            def forward(self, x):
                q, k, v = self.project(x).view(2, 16, 4, 48).transpose(1, 2).chunk(3, dim=-1)
                out = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=self.bias[None])
                return x + out.transpose(1, 2).reshape(2, 16, 64)

        def train(fake):
            with torch.device("meta"):
                model = Stack(64, 0)
                model.layers = nn.ModuleList([Attention()])
            model = sharded(model, MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            while not fake.done:
                optimizer.zero_grad()
                model(torch.randn((2, 16, 64), device="cuda")).mean().backward()
                optimizer.step()

        workload = record(train)
        labels = [op[4] for op in workload["steps"][2] if op[0] == "kernel"]
        self.assertIn("aten::_scaled_dot_product_efficient_attention", labels)
        made = [op[-1]["gradient_of"] for op in workload["steps"][2] if op[0] == "alloc" and op[3] == "gradients"]
        self.assertEqual(len(made), 5)

    def test_workspaces_of_the_memory_efficient_kernel(self):
        """Those of 16 heads on an H200, PyTorch 2.11; the last one is of the reference run seed_transformer."""
        from foreshard.fake.unseen import efficient_backward_workspace

        seen = {
            (512, 512, 32, 2): 2099200,
            (1000, 1000, 64, 2): 4198400,
            (512, 512, 80, 2): 4195328,
            (512, 256, 128, 2): 4195328,
            (512, 512, 160, 2): 23071744,
            (512, 256, 64, 4): 2099200,
            (1000, 1000, 128, 4): 8392704,
            (64, 64, 1024, 4): 16 * 524544,
        }
        self.assertEqual({key: 16 * efficient_backward_workspace(*key) for key in seen}, seen)

    def test_a_loop_that_does_not_train_is_an_error(self):
        with self.assertRaisesRegex(RuntimeError, "3 steps"):
            record(lambda fake: None)

    def test_sizes_that_depend_on_numbers_are_an_error(self):
        with self.assertRaisesRegex(RuntimeError, "depends on numbers"):
            record(lambda fake: torch.randn(8, device="cuda").nonzero())

    def test_whole_numbers_from_the_host_are_known(self):
        def train(fake):
            tokens = torch.tensor([[1, 9, 9, 2], [3, 9, 4, 5]]).to("cuda")
            mask = tokens == 9
            self.assertEqual(mask.sum().item(), 3)
            self.assertEqual(mask.nonzero().shape, (3, 2))
            x = torch.randn((2, 4, 8), device="cuda")
            self.assertEqual(x[mask].shape, (3, 8))
            self.assertEqual(x[mask.unsqueeze(-1).expand_as(x)].numel(), 24)
            self.assertTrue((torch.arange(5, device="cuda") < 5).all())
            self.assertTrue((torch.zeros_like(mask) == 0).all())
            self.assertEqual(tokens.cpu().tolist()[1], [3, 9, 4, 5])
            stack(fake)

        self.assertEqual(len(record(train)["estimates"]), 1)

    def test_numbers_that_are_read_are_said(self):
        def train(fake):
            model = sharded(Stack(64, 1))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            while not fake.done:
                optimizer.zero_grad()
                loss = model(torch.randn((8, 64), device="cuda")).mean()
                loss.backward()
                optimizer.step()
                self.assertEqual(loss.item(), 1.0)
                self.assertFalse(loss.isnan().any())

        self.assertTrue(any("item()" in estimate for estimate in record(train)["estimates"]))


def planned(source, *options):
    """Peaks of a plan, by their names."""
    command = [os.environ["FORESHARD_BINARY"], "plan", str(source), "--machine", "h200", "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return peaks_of(json.loads(done.stdout))


def peaks_of(plan):
    return {key: value for key, value in plan.items() if key.startswith("peak")}


@unittest.skipUnless(os.environ.get("FORESHARD_BINARY"), "FORESHARD_BINARY is not set")
class LikeModelFamiliesTest(unittest.TestCase):
    """The families' programs are those of the reference runs, request by request: fake recordings have their peaks."""

    def compare(self, train, preset, *options):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "x.workload.json")
            with foreshard.record_fake(path, world_size=4) as fake:
                torch.distributed.barrier()
                train(fake)
            # The root was given its resharding in the reference runs, which FSDP2 tells apart from 2.8 on.
            settings = ["--gpus", "4", "--root-reshard-explicit"]
            self.assertEqual(planned(path, *settings), planned(preset, *settings, *options))

    def test_mlp(self):
        def train(fake):
            with torch.device("meta"):
                model = Stack(256, 3)
            model = sharded(model)
            initialise(model)
            optimizer = torch.optim.Adam(model.parameters())

            def step():
                optimizer.zero_grad()
                x = torch.randn((8, 256), device="cuda")
                loss = model(x).mean()
                loss.backward()
                optimizer.step()
                return loss

            while not fake.done:
                step()

        self.compare(train, "mlp", "--dim", "256", "--layers", "3", "--batch", "8")

    def test_llama(self):
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

        import fake_llama

        def train(fake, checkpointed):
            with torch.device("meta"):
                model = fake_llama.Llama(layers=3)
            if checkpointed:
                model.layers = nn.ModuleList([checkpoint_wrapper(layer) for layer in model.layers])
            policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
            model = sharded(model, policy)
            initialise(model)
            optimizer = torch.optim.Adam(model.parameters())
            tables, kept = fake_llama.rotary_tables(model, 2048)
            while not fake.done:
                fake_llama.train_step(model, optimizer, tables, 2, 2048)
            self.assertEqual(len(kept), 2)

        for checkpointed in (False, True):
            with self.subTest(checkpointed=checkpointed):
                options = ["--layers", "3", "--batch", "2", "--seq", "2048"]
                options += ["--param-dtype", "bfloat16", "--reduce-dtype", "float32"]
                options += ["--checkpoint", "blocks" if checkpointed else "none"]
                self.compare(lambda fake: train(fake, checkpointed), "llama-tiny", *options)


def initialise(model):
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.02)


def stack_of_64(fake):
    with torch.device("meta"):
        model = Stack(64, 2)
    model = sharded(model, world_size=64)
    optimizer = torch.optim.Adam(model.parameters())
    while not fake.done:
        optimizer.zero_grad()
        model(torch.randn((8, 64), device="cuda")).mean().backward()
        optimizer.step()


if __name__ == "__main__":
    unittest.main()
