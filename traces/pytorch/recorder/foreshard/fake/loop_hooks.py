"""Where the training loop is: zero_grad, backward, the optimizer's step."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

from ..model_facts import describe_optimizer, optimizer_word
from .host_times import OF_HOOK, ZERO_GRAD
from .op_log import OpLog
from .workload import WorkloadWriter


class LoopHooks:
    """The hooks of docs/workload.md that are not FSDP2's. A step begins with what comes first: zero_grad, or the root's
    forward."""

    def __init__(self, log: OpLog, writer: WorkloadWriter, finished: Any) -> None:
        self._log = log
        self._writer = writer
        self._finished = finished  # the optimizer's step is over
        self._microbatch = False
        self._zeroed = False
        self._stepping = contextlib.ExitStack()
        self.optimizers: list[Any] = []
        self.optimizer_known = True

    def begin_step(self) -> None:
        self._writer.begin_step()
        self._log.modules.begin_step()
        self._zeroed = self._microbatch = False

    def begin_forward(self) -> None:
        if self._writer.steps == 0:
            self.begin_step()
        self._begin_microbatch()
        self._writer.hook("forward_begin")

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        import torch
        from torch.optim import optimizer

        with contextlib.ExitStack() as stack:
            backward, zero_grad = torch.autograd.backward, torch.optim.Optimizer.zero_grad

            def run_backward(*args: Any, **kwargs: Any) -> None:
                self._backward(backward, args, kwargs)

            def run_zero_grad(optimizer: Any, *args: Any, **kwargs: Any) -> None:
                self._zero_grad(optimizer)
                with self._log.silent():
                    zero_grad(optimizer, *args, **kwargs)

            stack.enter_context(mock.patch.object(torch.autograd, "backward", run_backward))
            stack.enter_context(mock.patch.object(torch.optim.Optimizer, "zero_grad", run_zero_grad))
            before = optimizer.register_optimizer_step_pre_hook(self._before_step)
            after = optimizer.register_optimizer_step_post_hook(self._after_step)
            stack.callback(before.remove)
            stack.callback(after.remove)
            yield

    def _begin_microbatch(self) -> None:
        if not self._microbatch:
            self._microbatch = True
            self._writer.spend(OF_HOOK["microbatch_begin"])
            self._writer.hook("microbatch_begin")

    def _zero_grad(self, optimizer: Any) -> None:
        if self._writer.steps == 0:
            self.begin_step()
        if self._zeroed or self._microbatch:
            return
        self._zeroed = True
        self._writer.spend(ZERO_GRAD * sum(len(group["params"]) for group in optimizer.param_groups))
        self._writer.hook("zero_grad")
        self._begin_microbatch()

    def _backward(self, backward: Any, args: Any, kwargs: Any) -> None:
        if self._log.in_backward or self._writer.steps == 0 or not self._microbatch:
            backward(*args, **kwargs)  # inside another one, or of something that is no training step
            return
        self._writer.hook("forward_end")
        self._writer.hook("backward_begin")
        self._log.in_backward = True
        try:
            backward(*args, **kwargs)
        finally:
            self._log.in_backward = False
        self._writer.hook("backward_end")
        self._writer.hook("microbatch_end")
        self._microbatch = False

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """What an optimizer allocates follows from settings.optimizer where foreshard knows it: left out then."""
        if not any(one is optimizer for one in self.optimizers):
            self.optimizers.append(optimizer)
        if self._writer.steps == 0 or optimizer is not self.optimizers[0]:
            return
        self._writer.hook("optimizer_begin")
        self._writer.hook("optimizer_step")
        self._stepping = contextlib.ExitStack()
        if optimizer_word(describe_optimizer(optimizer)) is None:
            self.optimizer_known = False
            self._log.in_optimizer = True
        else:
            self._stepping.enter_context(self._log.silent())
            self._stepping.enter_context(_without_gradients(optimizer))

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._writer.steps == 0 or optimizer is not self.optimizers[0]:
            return
        self._stepping.close()
        self._log.in_optimizer = False
        self._writer.hook("optimizer_end")
        self._finished()


@contextlib.contextmanager
def _without_gradients(optimizer: Any) -> Iterator[None]:
    """step() passes over parameters without one: nothing of it is needed."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    gradients = [parameter.grad for parameter in parameters]
    for parameter in parameters:
        parameter.grad = None
    try:
        yield
    finally:
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = gradient
