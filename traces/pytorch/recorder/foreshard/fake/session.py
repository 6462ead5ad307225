"""A fake recording: the user's own training steps without a GPU, written as a workload file."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any
from unittest import mock

from .. import units as fsdp_units
from ..about import make_about
from ..guard import Guard
from ..inputs import InputWatch
from ..model_facts import describe_model, describe_optimizer
from .workload import SETUP, WorkloadWriter

_H200 = {"gpu": "NVIDIA H200", "sm_count": 132, "capability": (9, 0), "memory": 150_754_820_096}


class Finished(BaseException):
    """Ends a script whose steps are recorded (python -m foreshard.record --fake)."""


class FakeRecording:
    """A context manager around a whole training script: the model is built, sharded and trained inside it, on "cuda".

    Raises what the script raises, and RuntimeError with the reason where a fake recording cannot follow it. The file is
    written when `steps` steps are over (`done`); what runs afterwards is not recorded. Not thread-safe, one at a time.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        world_size: int,
        gpus_per_node: int = 8,
        steps: int = 3,
        gpu: str = _H200["gpu"],
        sm_count: int = _H200["sm_count"],
        capability: tuple[int, int] = _H200["capability"],
        model: Any = None,
        optimizer: Any = None,
        shard: Callable[[Any], Any] | None = None,
        stop: bool = False,
    ) -> None:
        """`steps`: the first makes caches and workspaces, the last is what every later step is taken for. The GPU is
        that of the workload, not of this machine. `model` and `optimizer`: built before, on the CPU or "meta"; the
        model is moved and sharded by `shard`, which calls fully_shard (blocks.shard_blocks without one). `stop`: raise
        Finished after the last step."""
        self._path = Path(path)
        self._world_size = world_size
        self._gpus = min(world_size, gpus_per_node)
        self._steps = max(2, steps)
        self._gpu = {"gpu": gpu, "sm_count": sm_count, "capability": tuple(capability), "memory": _H200["memory"]}
        self._adopted = (model, optimizer, shard)
        self._stop = stop
        self._stack = contextlib.ExitStack()
        self._root: Any = None
        self._units: list[dict[str, Any]] = []
        self._inputs: InputWatch | None = None
        self.done = False
        self.workload: dict[str, Any] | None = None

    def __enter__(self) -> FakeRecording:
        import torch

        from .attention import AttentionChoice
        from .blocks import adopt
        from .cuda import FakeGpu
        from .device_guard import ensure_device_guard
        from .fsdp_hooks import FsdpHooks
        from .loop_hooks import LoopHooks
        from .op_log import OpLog
        from .process_group import fake_process_group
        from .unseen import GpuRules

        ensure_device_guard()
        capability = self._gpu["capability"]
        self.writer = WorkloadWriter()
        self.log = OpLog(self.writer, GpuRules(self._gpu["sm_count"], capability))
        self._loop = LoopHooks(self.log, self.writer, self._end_step)
        self._fsdp = FsdpHooks(self.log, self.writer, self._begin_forward)
        fake_gpu = FakeGpu(self._gpus, self._gpu["sm_count"], capability, self._gpu["gpu"], self._gpu["memory"])
        with contextlib.ExitStack() as stack:
            stack.enter_context(fake_process_group(self._world_size, self._gpus))
            stack.enter_context(fake_gpu.installed())
            stack.enter_context(torch.autograd.set_multithreading_enabled(False))
            stack.enter_context(_swapping())
            stack.enter_context(torch.compiler.set_stance("force_eager"))
            stack.enter_context(_not_tracing())
            stack.enter_context(self._fsdp.installed())
            stack.enter_context(self._loop.installed())
            stack.enter_context(self.log.modules.installed())
            stack.enter_context(AttentionChoice(capability).installed())
            stack.enter_context(self.log)
            self.log.calibrate()
            if self._adopted[0] is not None:
                adopt(*self._adopted)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        if kind is None and not self.done:
            raise RuntimeError(
                f"a fake recording of {self._steps} steps ended after {self.writer.steps} had begun: train for at "
                "least that many, with an optimizer of torch.optim"
            )

    def step(self) -> None:
        """Nothing: a step ends with the optimizer's. For loops that call foreshard.record's."""

    def _begin_forward(self, state: Any) -> None:
        """In front of each forward of FSDP2's root."""
        if self._root is None:
            self._root = state._modules[0]
            self._describe()
        if not self.done:
            self._loop.begin_forward()

    def _describe(self) -> None:
        root = self._root
        self._units = fsdp_units.describe_units(root)
        self.log.modules.describe(root)
        states = list(fsdp_units._states(root))
        kept = [one for one in states if fsdp_units.groups_of(one) or one is states[0]]
        self._mark_shards(kept)
        self._fsdp.set_units(kept, fsdp_units.groups_of)
        self._inputs = InputWatch(root, Guard())

    def _mark_shards(self, states: list[Any]) -> None:
        """Setup's allocations of shards carry their parameter, so that other meshes resize them."""
        number = 0
        for state in states:
            for group in fsdp_units.groups_of(state):
                for parameter in group.fsdp_params:
                    local = getattr(parameter.sharded_param, "_local_tensor", parameter.sharded_param)
                    block = self.log.block_of(local) if local.device.type == "cuda" else None
                    if block is not None and block.program == SETUP:
                        block.op[3] = "parameters"
                        block.extra.update({"size": "local_shard", "parameter": number})
                    number += 1

    def _end_step(self) -> None:
        if self.done:
            return
        if self._inputs is not None:
            self._inputs.end_step()
        if self.writer.steps < self._steps:
            self._loop.begin_step()
            return
        self._finish()
        if self._stop:
            raise Finished

    def _finish(self) -> None:
        self.done = True
        self._stack.enter_context(self.log.silent())
        self.log.stop()
        if self._inputs is not None:
            self._inputs.stop()
        self.workload = self.writer.finish(self._facts())
        part = self._path.with_name(f".part{os.getpid()}.{self._path.name}")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(_as_text(self.workload), encoding="utf-8")
        os.replace(part, self._path)

    def _facts(self) -> dict[str, Any]:
        from .facts import workload_facts

        import torch

        environment = {
            "world_size": self._world_size,
            "ranks_per_node": self._gpus,
            "torch": torch.__version__,
            "variables": {k: v for k, v in os.environ.items() if k.startswith("PYTORCH_")},
        }
        names = fsdp_units.parameter_names(self._root)
        optimizers = [describe_optimizer(one, names) for one in self._loop.optimizers]
        inputs = self._inputs.steps if self._inputs is not None else []
        about = make_about(environment, self._units, describe_model(self._root), optimizers, inputs, None)
        return workload_facts(
            about,
            self._gpu,
            describe_model(self._root)["class"],
            self._parameters_order(),
            self._loop.optimizer_known,
            self.log.read_numbers,
            describe_model(self._root)["compiled"],
            self._local_shapes(),
            self.writer.process_groups,
        )

    def _local_shapes(self) -> dict[str, list[int]]:
        """What FSDP2 shards: under tensor parallelism this rank's part."""
        groups = (group for unit in self._units for group in unit["groups"])
        return {p["name"]: p["local_shape"] for group in groups for p in group["parameters"]}

    def _parameters_order(self) -> list[int]:
        """model.parameters() by the units' numbers."""
        number = {}
        for state in fsdp_units._states(self._root):
            for group in fsdp_units.groups_of(state):
                for parameter in group.fsdp_params:
                    number[id(parameter.sharded_param)] = self._fsdp.parameter_of[id(parameter)]
        return [number[id(p)] for p in self._root.parameters() if id(p) in number]


@contextlib.contextmanager
def _swapping() -> Iterator[None]:
    """module.to("cuda") puts fake tensors in the place of real ones, which setting .data cannot."""
    from torch import __future__ as future

    before = future.get_swap_module_params_on_conversion()
    future.set_swap_module_params_on_conversion(True)
    try:
        yield
    finally:
        future.set_swap_module_params_on_conversion(before)


@contextlib.contextmanager
def _not_tracing() -> Iterator[None]:
    """transformers takes fake tensors for a tracer's, and leaves out what it decides by numbers (is_tracing)."""
    with contextlib.ExitStack() as stack:
        for name in ("transformers.utils.generic", "transformers.utils.import_utils"):
            with contextlib.suppress(Exception):  # without transformers, or of a version without it
                module = importlib.import_module(name)
                if hasattr(module, "is_fake_tensor"):
                    stack.enter_context(mock.patch.object(module, "is_fake_tensor", lambda value: False))
        yield


def _as_text(workload: dict[str, Any]) -> str:
    """One op a line."""
    parts = []
    for key, value in workload.items():
        if key == "setup":
            text = "[" + ",\n  ".join(json.dumps(op) for op in value) + "]"
        elif key == "steps":
            text = "[" + ",\n ".join("[" + ",\n  ".join(json.dumps(op) for op in step) + "]" for step in value) + "]"
        else:
            text = json.dumps(value)
        parts.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"
