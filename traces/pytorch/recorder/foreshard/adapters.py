"""The recorder in the loops of other frameworks. Each imports its framework when it is called."""

from __future__ import annotations

import atexit
from contextlib import AbstractContextManager
from os import PathLike
from typing import Any

from .by_optimizer import RecordingByOptimizer
from .history import start_history
from .recording import Recording


def trainer_callback(folder: str | PathLike[str], **options: Any) -> Any:
    """A transformers.TrainerCallback: Trainer(..., callbacks=[trainer_callback("rec/")]). The memory history starts at
    once, so that it knows of the set-up; axolotl takes it from a plugin's add_callbacks_pre_trainer."""
    from transformers import TrainerCallback

    start_history(options.get("stacks", "python"), options.get("max_entries", 1_000_000))

    class RecorderCallback(TrainerCallback):
        recording: Recording | None = None

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            # The Trainer has wrapped its model by now; the FSDP2 modules in it are found either way.
            self.recording = Recording(folder, kwargs.get("model"), kwargs.get("optimizer"), **options)
            self.recording.__enter__()
            # A training that raises, out of memory for example, tells its callbacks nothing.
            atexit.register(self._end)

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if self.recording is not None:
                self.recording.step()

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            atexit.unregister(self._end)
            self._end()

        def _end(self) -> None:
            recording, self.recording = self.recording, None
            if recording is not None:
                recording.__exit__(None, None, None)

    return RecorderCallback()


def accelerate(accelerator: Any, folder: str | PathLike[str], **options: Any) -> AbstractContextManager[Any]:
    """Around a loop of accelerate, after prepare(): with adapters.accelerate(accelerator, "rec/"). Steps are those of
    the prepared optimizers, so that gradient accumulation is counted rightly."""
    model = next(iter(getattr(accelerator, "_models", [])), None)
    optimizers = [getattr(one, "optimizer", one) for one in getattr(accelerator, "_optimizers", [])]
    return RecordingByOptimizer(folder, model, optimizers or None, **options)


def torchtitan(trainer: Any, folder: str | PathLike[str], **options: Any) -> AbstractContextManager[Any]:
    """Around torchtitan's loop: with adapters.torchtitan(trainer, "rec/"): trainer.train()."""
    model = next(iter(getattr(trainer, "model_parts", [])), None)
    optimizers = list(getattr(getattr(trainer, "optimizers", None), "optimizers", []))
    return RecordingByOptimizer(folder, model, optimizers or None, **options)


def any_loop(folder: str | PathLike[str], **options: Any) -> AbstractContextManager[Any]:
    """Around a loop that cannot be edited: a step ends with the optimizer's."""
    return RecordingByOptimizer(folder, **options)
