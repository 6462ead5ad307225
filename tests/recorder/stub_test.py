"""The recorder over a torch that keeps a journal: what is called in which order, and what happens when a part fails."""

import gc
import gzip
import json
import logging
import os
import pickle
import sys
import tempfile
import threading
import types
import unittest
from pathlib import Path
from unittest import mock

import recorder_path

sys.path.insert(0, str(Path(__file__).parent / "stub"))
import torch  # noqa: E402 (the stub)

import foreshard  # noqa: E402
from foreshard import adapters, history, units  # noqa: E402
from foreshard import recording as recording_module  # noqa: E402
from foreshard.by_optimizer import RecordingByOptimizer  # noqa: E402
from foreshard.model_facts import describe_optimizer  # noqa: E402

FAULTS = ["history.start", "history.stop", "snapshot", "profiler.start", "profiler.stop", "trace", "memory_stats",
          "event.record", "synchronize", "hook"]  # fmt: skip


def small_model():
    root = torch.ShardedModule({"embedding": (32, 8)})
    for i in range(2):
        root.children_by_name[f"layers.{i}"] = torch.ShardedModule({"weight": (8, 8)})
    return root


def train(recording, model, optimizer, steps):
    for _ in range(steps):
        model(torch.Tensor((4, 128))).backward()
        torch.journal.append("step")
        optimizer.step()
        if recording is not None:
            recording.step()


class Warnings(logging.Handler):
    def __init__(self):
        super().__init__()
        self.messages = []

    def emit(self, record):
        self.messages.append(record.getMessage())


class StubTest(unittest.TestCase):
    def setUp(self):
        gc.collect()  # models of other tests
        torch.reset()
        history._started = False
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name) / "rec"
        self.warnings = Warnings()
        logger = logging.getLogger("foreshard")
        logger.addHandler(self.warnings)
        logger.propagate = False
        self.addCleanup(logger.removeHandler, self.warnings)

    def about(self):
        return json.loads((self.folder / "about.json").read_text())

    def rank(self):
        return json.loads((self.folder / "rank00000/rank.json").read_text())

    def test_everything_is_written(self):
        model, optimizer = small_model(), torch.AdamW()
        with foreshard.record(self.folder, model, optimizer, measure=3) as recording:
            train(recording, model, optimizer, 9)
        self.assertEqual(recording.problems, [])
        self.assertEqual(self.warnings.messages, [])
        files = sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file())
        self.assertEqual(
            files,
            ["about.json", "rank00000/rank.json", "rank00000/snapshot.pickle.gz", "rank00000/trace.json.gz"],
        )
        with gzip.open(self.folder / "rank00000/snapshot.pickle.gz") as file:
            self.assertEqual(pickle.load(file)["device_traces"], [[]])
        about = self.about()
        self.assertEqual((about["batch"], about["seq"]), (4, 128))
        self.assertEqual(about["settings"]["optimizer"], "adam-fused")
        self.assertEqual([unit["unit"] for unit in about["units"]], ["", "layers.0", "layers.1"])
        self.assertEqual(len(about["measured"]["step_ms"]), 3)
        self.assertEqual(len(self.rank()["recorded"]["memory_steps"]), 4)

    def test_steps_are_recorded_then_measured_with_nothing_running(self):
        model, optimizer = small_model(), torch.AdamW()
        with foreshard.record(self.folder, model, optimizer, measure=2) as recording:
            train(recording, model, optimizer, 8)
        calls = [call for call in torch.journal if call not in ("synchronize", "memory_stats", "hook")]
        recorded = ["history.start", "step", "step", "profiler.start", "step", "step"]
        written = ["profiler.stop", "snapshot", "history.stop", "trace"]
        measured = ["event.record", "step", "event.record", "step", "event.record"]
        self.assertEqual(calls, recorded + written + measured + ["step", "step"])
        self.assertEqual(model.hooks + model.after, [])

    def test_cupti_goes_with_the_profile_unless_the_environment_says_otherwise(self):
        for cuda, before, after in [("13.0", None, "1"), ("12.6", None, "1"), ("12.4", None, None), ("13.0", "0", "0")]:
            with self.subTest(cuda=cuda, before=before), mock.patch.object(torch.version, "cuda", cuda):
                self.setUp()
                with mock.patch.dict(os.environ, {} if before is None else {"TEARDOWN_CUPTI": before}):
                    if before is None:
                        os.environ.pop("TEARDOWN_CUPTI", None)
                    with foreshard.record(self.folder, small_model(), torch.AdamW(), measure=2) as recording:
                        train(recording, small_model(), torch.AdamW(), 5)
                    self.assertEqual(os.environ.get("TEARDOWN_CUPTI"), after)

    def test_what_fails_leaves_the_training_and_the_rest_alone(self):
        for fault in FAULTS:
            with self.subTest(fault):
                self.setUp()
                torch.faults.add(fault)
                model, optimizer = small_model(), torch.AdamW()
                with foreshard.record(self.folder, model, optimizer, measure=2) as recording:
                    train(recording, model, optimizer, 8)
                self.assertEqual(torch.journal.count("step"), 8)
                self.assertEqual(len(self.warnings.messages), 2 if fault == "history.start" else 1)
                self.assertNotEqual(recording.problems, [])
                self.assertTrue(recording.done)
                self.assertEqual(len(self.about()["units"]), 3)
                snapshot = self.folder / "rank00000/snapshot.pickle.gz"
                self.assertEqual(snapshot.exists(), fault not in ("history.start", "snapshot"))
                self.assertEqual([path for path in self.folder.rglob(".part*")], [])

    def test_a_folder_that_cannot_be_made(self):
        self.folder.write_text("a file is in the way")
        model, optimizer = small_model(), torch.AdamW()
        with foreshard.record(self.folder, model, optimizer, measure=1) as recording:
            train(recording, model, optimizer, 8)
        self.assertEqual(len(self.warnings.messages), 1)
        self.assertIn("history.stop", torch.journal)

    def test_a_training_that_stops_is_written_and_its_error_goes_on(self):
        model, optimizer = small_model(), torch.AdamW()
        with self.assertRaisesRegex(RuntimeError, "out of memory"):
            with foreshard.record(self.folder, model, optimizer) as recording:
                train(recording, model, optimizer, 1)
                raise RuntimeError("CUDA out of memory")
        self.assertTrue((self.folder / "rank00000/snapshot.pickle.gz").exists())
        self.assertNotIn("measured", self.about())
        self.assertIn("out of memory", self.rank()["problems"][0])

    def test_a_gpu_that_never_gets_done_holds_up_no_failure(self):
        for steps in (3, 5):  # recording under the profiler, and measuring
            with self.subTest(steps), mock.patch.object(recording_module, "_FAILED_S", 0.05):
                self.setUp()
                model, optimizer = small_model(), torch.AdamW()
                release = threading.Event()
                with self.assertRaisesRegex(RuntimeError, "out of memory"):
                    with foreshard.record(self.folder, model, optimizer) as recording:
                        train(recording, model, optimizer, steps)
                        with mock.patch.object(torch.cuda, "synchronize", lambda device=None: release.wait(20)):
                            recording.__exit__(RuntimeError, RuntimeError("CUDA out of memory"), None)
                        release.set()
                        raise RuntimeError("CUDA out of memory")
                self.assertTrue((self.folder / "rank00000/snapshot.pickle.gz").exists())
                self.assertEqual("profiler.stop" in torch.journal, steps == 5)
                self.assertIn("was not done", " ".join(recording.problems))
                self.assertNotIn("measured", self.about())

    def test_a_forward_without_a_backward_is_no_microbatch(self):
        model, optimizer = small_model(), torch.AdamW()
        with foreshard.record(self.folder, model, optimizer, measure=0) as recording:
            for _ in range(4):
                model(torch.Tensor((4, 128))).backward()
                model(torch.Tensor((64, 512)))
                optimizer.step()
                recording.step()
        self.assertEqual(self.about()["settings"]["accumulate"], 1)
        self.assertEqual((self.about()["batch"], self.about()["seq"]), (4, 128))

    def test_an_optimizer_is_known_by_the_step_that_it_runs(self):
        class Sub(torch.AdamW):
            pass

        class Own(torch.AdamW):
            def step(self):
                pass

        class AdamW:
            param_groups, defaults = [], {}

        wrapper = types.SimpleNamespace(optim=types.SimpleNamespace(optimizer=Sub(), param_groups=[]))
        names = [describe_optimizer(one)["torch_class"] for one in (Sub(), Own(), AdamW(), wrapper)]
        self.assertEqual(names, ["AdamW", None, None, "AdamW"])

    def test_parameters_of_an_optimizer_are_named_group_by_group(self):
        first, second, other = object(), object(), object()
        optimizer = torch.AdamW()
        optimizer.param_groups = [{"params": [second, other]}, {"params": [first]}]
        found = describe_optimizer(optimizer, {id(first): "a.weight", id(second): "b.weight"})
        self.assertEqual(found["param_groups"], [["b.weight", None], ["a.weight"]])
        self.assertEqual((found["groups"], found["parameters"]), (2, 3))

    def test_set_up_is_recorded_when_asked_early(self):
        foreshard.record_setup()
        model, optimizer = small_model(), torch.AdamW()
        with foreshard.record(self.folder, model, optimizer, measure=0) as recording:
            train(recording, model, optimizer, 5)
        self.assertEqual(torch.journal.count("history.start"), 1)
        self.assertTrue(self.rank()["recorded"]["with_setup"])

    def test_steps_end_with_the_optimizer_and_modules_are_found(self):
        model, optimizer = small_model(), torch.AdamW()
        with RecordingByOptimizer(self.folder, measure=2, after=1) as recording:
            train(None, model, optimizer, 10)
        self.assertEqual(recording.problems, [])
        self.assertEqual(torch.journal.index("history.start"), torch.journal.index("step") + 1)
        self.assertEqual(self.rank()["recorded"]["steps"], 4)
        self.assertEqual(self.rank()["optimizers"][0]["class"], "AdamW")
        self.assertEqual(torch._step_hooks, [])

    def test_a_script_that_exits_is_no_failure(self):
        model, optimizer = small_model(), torch.AdamW()
        with self.assertRaises(SystemExit):
            with foreshard.record(self.folder, model, optimizer, measure=3) as recording:
                train(recording, model, optimizer, 5)
                sys.exit()
        self.assertEqual(recording.problems, [])
        self.assertEqual(len(self.about()["measured"]["step_ms"]), 1)

    def test_images_have_no_length(self):
        for shape, size in [((32, 3, 224, 224), (32, None)), ((2, 3, 8, 64, 64), (2, None)), ((4, 16, 512), (4, 16)),
                            ((8, 512), (8, None))]:  # fmt: skip
            with self.subTest(shape):
                self.setUp()
                model, optimizer = small_model(), torch.AdamW()
                with foreshard.record(self.folder, model, optimizer, measure=2) as recording:
                    for _ in range(8):
                        model(torch.Tensor(shape, "torch.float32")).backward()
                        optimizer.step()
                        recording.step()
                about = self.about()
                self.assertEqual((about.get("batch"), about.get("seq")), size)

    def test_the_callback_of_the_trainer(self):
        model, optimizer = small_model(), torch.AdamW()
        transformers = types.SimpleNamespace(TrainerCallback=object)
        with mock.patch.dict(sys.modules, transformers=transformers):
            callback = adapters.trainer_callback(self.folder, measure=2)
        self.assertEqual(torch.journal, ["history.start"])
        wrapper = types.SimpleNamespace(optimizer=optimizer)  # AcceleratedOptimizer
        callback.on_train_begin(None, None, None, model=model, optimizer=wrapper)
        for _ in range(7):
            model(input_ids=torch.Tensor((2, 64)), labels=torch.Tensor((2, 64))).backward()
            callback.on_step_end(None, None, None)
        callback.on_train_end(None, None, None)
        self.assertEqual((self.about()["batch"], self.about()["seq"]), (2, 64))
        self.assertEqual(self.about()["settings"]["optimizer"], "adam-fused")
        self.assertEqual(len(self.about()["measured"]["step_ms"]), 2)
        self.assertTrue(self.rank()["recorded"]["with_setup"])

    def test_loops_of_other_frameworks(self):
        model, optimizer = small_model(), torch.AdamW()
        wrapper = types.SimpleNamespace(optimizer=optimizer)
        accelerator = types.SimpleNamespace(_models=[model], _optimizers=[wrapper])
        trainer = types.SimpleNamespace(model_parts=[model], optimizers=types.SimpleNamespace(optimizers=[optimizer]))
        for made in (
            lambda: adapters.accelerate(accelerator, self.folder, measure=1),
            lambda: adapters.torchtitan(trainer, self.folder, measure=1),
            lambda: adapters.any_loop(self.folder, measure=1),
        ):
            self.setUp()
            with made() as recording:
                train(None, model, optimizer, 7)
            self.assertEqual(recording.problems, [])
            self.assertEqual(len(self.about()["measured"]["step_ms"]), 1)
            self.assertEqual(len(self.rank()["optimizers"]), 1)

    def test_blocks_without_a_root_are_no_model(self):
        model, optimizer = torch.nn.Module(), torch.AdamW()
        for i in range(3):
            model.children_by_name[f"layers.{i}"] = torch.ShardedModule({"weight": (8, 8)})
        with foreshard.record(self.folder, model, optimizer, measure=0) as recording:
            train(recording, model, optimizer, 4)
        self.assertIn("3 root FSDP2 modules", recording.problems[0])
        self.assertFalse((self.folder / "about.json").exists())
        self.assertTrue((self.folder / "rank00000/snapshot.pickle.gz").exists())

    def test_of_several_models_the_one_that_is_trained_is_described(self):
        both, student = torch.nn.Module(), small_model()
        teacher = torch.ShardedModule({"embedding": (640, 8)})
        for parameter in teacher.parameters():
            parameter.requires_grad = False
        both.children_by_name |= {"teacher": teacher, "student": student}
        roots = units.find_roots(both)
        self.assertEqual(roots, [student, teacher])
        self.assertEqual(units.share_of_first(roots), 1)

    def test_a_step_after_everything_does_nothing(self):
        model, optimizer = small_model(), torch.AdamW()
        with foreshard.record(self.folder, model, optimizer, steps=1, profile=0, measure=0) as recording:
            train(recording, model, optimizer, 1)
            before = len(torch.journal)
            recording.step()
            self.assertEqual(len(torch.journal), before)


if __name__ == "__main__":
    unittest.main()
