"""One recording: history and profile of the first steps, then clean times of the next ones, then nothing.

    entered → `steps` recorded steps, the last `profile` of them under the profiler → files are written
            → `measure` steps timed with nothing running → the times are written → step() only compares a number
"""

from __future__ import annotations

import itertools
import os
import time
from enum import Enum
from os import PathLike
from types import TracebackType
from typing import Any

from . import history, units
from .about import make_about
from .environment import describe_environment, rank_and_world
from .folder import Folder
from .guard import Guard
from .inputs import InputWatch
from .model_facts import describe_model, describe_optimizer
from .profiling import StepProfiler
from .rank_barrier import RankBarrier
from .timing import StepTimer, synchronize, synchronized_within

# Longest wait for ranks that are still writing: shorter than any time-out of collectives that jobs set.
_WRITING_S = 60.0
# Longest wait for the GPU after an exception.
_FAILED_S = 10.0
# A root with that part of all parameters stands for the model; others beside it are small (a teacher's head, say).
_WHOLE_MODEL = 0.5
_recordings = itertools.count()


class _Phase(Enum):
    RECORDING = 0
    MEASURING = 1
    DONE = 2


class Recording:
    """A context manager whose step() ends one training step.

    folder: created; holds about.json and a folder a rank (docs/record.md).
    model: the module or a wrapper of it; without one the root FSDP2 modules are looked for among all objects.
    optimizer: one, a list, or a container of several (torchtitan's); without any, about.json says nothing of it.
    steps: recorded steps, counted from entering. profile: how many of them, the last, run under the profiler.
    measure: steps that are timed afterwards, with nothing recording.
    stacks, max_entries: of torch.cuda.memory._record_memory_history.

    Nothing here raises into the loop; `problems` says what is missing, and why.
    """

    def __init__(
        self,
        folder: str | PathLike[str],
        model: Any = None,
        optimizer: Any = None,
        *,
        steps: int = 4,
        profile: int = 2,
        measure: int = 10,
        stacks: str = "python",
        max_entries: int = 1_000_000,
    ) -> None:
        self._folder_path = folder
        self._model = model
        self._optimizers = _listed(optimizer)
        self._steps = max(1, steps)
        self._profiled = min(max(0, profile), self._steps)
        self._measure = max(0, measure)
        self._stacks = stacks
        self._max_entries = max_entries
        self._guard = Guard()
        self._phase = _Phase.DONE
        self._count = 0
        self._rank_barrier = RankBarrier(f"{os.path.basename(os.path.abspath(folder))}/{next(_recordings)}")
        self._with_setup = False
        self._folder: Folder | None = None
        self._root: Any = None
        self._inputs: InputWatch | None = None
        self._profiler = StepProfiler()
        self._timer: StepTimer | None = None
        self._memory_steps: list[dict[str, int]] = []
        self._returned = 0.0
        self._host_ms: list[float] = []
        self._post_optimizer_event = False
        self._described: dict[str, Any] = {}
        self._has_about = False

    @property
    def problems(self) -> list[str]:
        """What could not be recorded, and why."""
        return self._guard.problems

    def add_optimizer(self, optimizer: Any) -> None:
        """An optimizer that was not known at the start."""
        if all(one is not optimizer for one in self._optimizers):
            self._optimizers.append(optimizer)

    @property
    def done(self) -> bool:
        """Whether everything is recorded and written."""
        return self._phase is _Phase.DONE

    def __enter__(self) -> Recording:
        if self._guard.run("start", self._start) is None:
            self._guard.run("memory history", history.stop_history)
            self._let_go()
        return self

    def step(self) -> None:
        """Ends a training step."""
        if self._phase is _Phase.DONE:
            return
        if self._phase is _Phase.MEASURING:
            if self._guard.run("times", self._measured_step) is None:
                self._let_go()
        elif self._guard.run("step", self._recorded_step) is None:
            self._guard.run("end of the recording", self._stop_recording)
            self._let_go()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Writes what there is when the loop ends early, out of memory included. The exception goes on."""
        self._guard.run("end", lambda: self._end(error))
        self._let_go()

    def _end(self, error: BaseException | None) -> None:
        if isinstance(error, SystemExit) and not error.code:
            error = None  # sys.exit() at a script's end
        if error is not None and self._phase is not _Phase.DONE:
            self._guard.note(f"the training stopped: {type(error).__name__}: {str(error)[:2000]}")
        if self._phase is _Phase.RECORDING:
            if error is None:
                self._guard.note(f"the loop ended after {self._count} of {self._steps} recorded steps")
            self._stop_recording(failed=error is not None)
        elif self._phase is _Phase.MEASURING and (error is None or self._is_idle()):
            self._finish()

    def _start(self) -> bool:
        self._with_setup = history.sees_setup()
        history.start_history(self._stacks, self._max_entries)
        self._phase = _Phase.RECORDING
        self._watch_inputs()
        if self._profiled == self._steps:
            self._guard.run("profiler", self._profiler.start)
        self._returned = time.perf_counter()
        return True

    def _watch_inputs(self) -> None:
        """As soon as there is a root: the loop may build the model after the recording has begun."""
        if self._inputs is None:
            roots = self._guard.run("FSDP2 modules", lambda: units.find_roots(self._model)) or []
            if roots:
                self._root = roots[0]
                self._inputs = self._guard.run("inputs of the model", lambda: InputWatch(roots[0], self._guard))

    def _recorded_step(self) -> bool:
        self._count += 1
        self._host_ms.append((time.perf_counter() - self._returned) * 1e3)
        self._memory_steps.append(_memory_statistics())
        if self._inputs is not None:
            self._inputs.end_step()
            self._post_optimizer_event |= units.waits_for_optimizer_event(self._root)
        self._watch_inputs()
        if self._count == self._steps:
            self._stop_recording()
            self._start_measuring()
        elif self._count == self._steps - self._profiled:
            self._guard.run("profiler", self._profiler.start)
        self._returned = time.perf_counter()
        return True

    def _is_idle(self) -> bool:
        """Whether the GPU gets done. After a failure it may not: a collective waits for ranks that will never come."""
        idle = self._guard.run("waiting for the GPU", lambda: synchronized_within(_FAILED_S))
        if not idle:
            self._guard.note(f"the GPU was not done {_FAILED_S:.0f} s after the failure: no trace and no times")
        return bool(idle)

    def _stop_recording(self, failed: bool = False) -> None:
        """Everything off, then everything written; each part by itself, so that one that fails takes no other along."""
        run = self._guard.run
        if not failed:
            run("waiting for the GPU", synchronize)
        idle = not failed or self._is_idle()
        if self._inputs is not None:
            run("inputs", self._inputs.stop)
        # Stopping the profiler waits for the GPU (torch.autograd.profiler.profile.__exit__).
        profile = run("profiler", self._profiler.stop) if self._profiler.running and idle else None
        snapshot = run("snapshot", history.take_snapshot) if history.history_started() else None
        run("memory history", history.stop_history)
        # Not before: a loop may make its process group, and with it get its rank, after the recording has begun.
        folder = self._folder = Folder(self._folder_path, rank_and_world()[0])
        if snapshot is not None:
            run("snapshot", lambda: folder.write_snapshot(snapshot))
        else:
            self._guard.note("no memory history: there is no snapshot")
        if profile is not None:
            run("trace", lambda: folder.write_trace(profile.export_chrome_trace))
        run("description", self._describe)
        run("description", lambda: self._write(None))

    def _start_measuring(self) -> None:
        if self._measure == 0:
            self._let_go()
            return
        self._guard.run("waiting for the other ranks", lambda: self._rank_barrier.wait(_WRITING_S))
        self._timer = StepTimer(self._measure)
        self._timer.start()
        self._phase = _Phase.MEASURING

    def _measured_step(self) -> bool:
        if self._timer is not None and self._timer.step():
            self._finish()
        return True

    def _finish(self) -> None:
        timer, self._timer = self._timer, None
        if timer is None or not timer.host_issue_ms:
            return
        step_ms = self._guard.run("times", timer.step_ms)
        measured = {"step_ms": step_ms or [], "host_issue_ms": timer.host_issue_ms, "profiler": False}
        self._guard.run("times", lambda: self._write(measured))
        self._let_go()

    def _let_go(self) -> None:
        """Nothing of the training is held any longer, and no rank waits for this one."""
        self._phase = _Phase.DONE
        self._guard.run("waiting for the other ranks", self._rank_barrier.arrive)
        self._model = self._root = self._timer = None
        self._optimizers = []

    def _describe(self) -> None:
        """Reads the model while its parameters are sharded: between two steps."""
        run = self._guard.run
        roots = run("FSDP2 modules", lambda: units.find_roots(self._model)) or []
        if not roots:
            self._guard.note("no module that fully_shard was called on: there is no about.json")
        elif units.share_of_first(roots) < _WHOLE_MODEL:
            self._guard.note(f"{len(roots)} root FSDP2 modules, none around the others: there is no about.json")
        elif len(roots) > 1:
            self._guard.note(
                f"{len(roots)} root FSDP2 modules, of which an import knows one: about.json describes that which "
                "trains most parameters"
            )
        self._has_about = bool(roots) and units.share_of_first(roots) >= _WHOLE_MODEL
        self._described = {
            "environment": run("environment", describe_environment),
            "units": run("units", lambda: units.describe_units(roots[0])) if roots else None,
            "model": run("model", lambda: describe_model(roots[0])) if roots else None,
            "optimizers": run("optimizer", lambda: self._describe_optimizers(roots)) or [],
        }

    def _describe_optimizers(self, roots: list[Any]) -> list[dict[str, Any]]:
        names = units.parameter_names(roots[0]) if roots else {}
        return [describe_optimizer(one, names) for one in self._optimizers]

    def _write(self, measured: dict[str, Any] | None) -> None:
        """rank.json, and about.json where this is rank 0."""
        folder, described = self._folder, self._described
        if folder is None or not described:
            return
        inputs = self._inputs.steps if self._inputs is not None else []
        facts = {
            "schema": 1,
            **described,
            "recorded": {
                "steps": self._count,
                "profiled": self._profiled,
                "with_setup": self._with_setup,
                "post_optimizer_event": self._post_optimizer_event,
                "inputs": inputs,
                "host_issue_ms": self._host_ms,
                "memory_steps": self._memory_steps,
            },
            "measured": measured,
            "problems": self.problems,
        }
        self._guard.run("rank.json", lambda: folder.write_rank(facts))
        environment, described_units, model = described["environment"], described["units"], described["model"]
        if rank_and_world()[0] != 0 or not self._has_about or not environment or not described_units or not model:
            return
        about = make_about(
            environment,
            described_units,
            model,
            described["optimizers"],
            inputs,
            measured if measured and measured["step_ms"] else None,
        )
        if self._post_optimizer_event:
            about["settings"]["post_optimizer_event"] = True
        self._guard.run("about.json", lambda: folder.write_about(about))


def _listed(optimizer: Any) -> list[Any]:
    if optimizer is None:
        return []
    several = getattr(optimizer, "optimizers", optimizer)
    return list(several) if isinstance(several, (list, tuple)) else [optimizer]


def _memory_statistics() -> dict[str, int]:
    """The allocator's counters at the end of a step. Peaks are the process's: the loop's own view is not reset."""
    import torch

    if not torch.cuda.is_available():
        return {}
    kept = ("allocated_bytes.all", "active_bytes.all", "reserved_bytes.all", "requested_bytes.all", "num_")
    return {key: value for key, value in torch.cuda.memory_stats().items() if key.startswith(kept)}
