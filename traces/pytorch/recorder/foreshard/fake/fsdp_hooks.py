"""FSDP2's own hooks run; here their places are written and what they do by themselves is left out.

A workload has no part of FSDP2's (docs/workload.md): `foreshard plan` puts it back under any settings. So the
resharding of the recording does not matter, and groups stay unsharded after forward while it is made: FSDP2 2.6 gathers
again in backward in a way that autograd refuses on anything but a GPU.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from .host_times import FORWARD_ROOT, OF_HOOK
from .op_log import OpLog
from .workload import WorkloadWriter

# FSDPParamGroup's methods that gather, free and reduce (torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py).
_OWN_WORK = ("unshard", "wait_for_unshard", "reshard", "finalize_backward", "lazy_init")


class FsdpHooks:
    """One object a recording. Units are numbered in the order of `units` as soon as the root is known."""

    def __init__(self, log: OpLog, writer: WorkloadWriter, root_forward: Callable[[Any], None]) -> None:
        self._log = log
        self._writer = writer
        self._root_forward = root_forward
        self._in_final_callback = False
        self._hooked: str | None = None  # the hook that the running FSDPState method has written
        self._root_backward = False
        self.unit_of: dict[int, int] = {}  # by id of the FSDPState
        self.parameter_of: dict[int, int] = {}  # by id of the FSDPParam
        self._state_of: dict[int, Any] = {}  # by id of the FSDPParamGroup

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        from torch.distributed.fsdp._fully_shard._fsdp_param_group import FSDPParamGroup
        from torch.distributed.fsdp._fully_shard._fsdp_state import FSDPState

        from torch.distributed.fsdp._fully_shard import _fsdp_init, _fully_shard

        with contextlib.ExitStack() as stack:
            # Called from _fully_shard in 2.6, from _fsdp_init (_get_modules_and_states) in 2.11.
            for module in (_fsdp_init, _fully_shard):
                if hasattr(module, "_move_states_to_device"):
                    stack.enter_context(mock.patch.object(module, "_move_states_to_device", _move_states_to_device))

            def patch(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
                stack.enter_context(mock.patch.object(owner, name, make(getattr(owner, name))))

            for name in _OWN_WORK:
                patch(FSDPParamGroup, name, self._silenced)
            patch(FSDPParamGroup, "pre_forward", lambda old: self._at_group("pre_forward", old))
            patch(FSDPParamGroup, "post_forward", lambda old: self._at_group("post_forward", old))
            patch(FSDPParamGroup, "pre_backward", lambda old: self._at_group("pre_backward", old))
            patch(FSDPParamGroup, "post_backward", self._post_backward)
            patch(FSDPState, "_lazy_init", self._silenced)
            patch(FSDPState, "_pre_forward", self._pre_forward)
            patch(FSDPState, "_post_forward", lambda old: self._at_state("post_forward", old))
            patch(FSDPState, "_pre_backward", lambda old: self._at_state("pre_backward", old))
            patch(FSDPState, "_root_post_backward_final_callback", self._final_callback)
            yield

    def set_units(self, states: list[Any], groups_of: Callable[[Any], list[Any]]) -> None:
        """`states` in the order of the file's units."""
        parameters = 0
        for unit, state in enumerate(states):
            self.unit_of[id(state)] = unit
            for group in groups_of(state):
                self._state_of[id(group)] = state
                group.post_forward_mesh_info = None  # no resharding after forward: above
                for parameter in group.fsdp_params:
                    self.parameter_of[id(parameter)] = parameters
                    parameters += 1

    def _silenced(self, old: Any) -> Any:
        def method(group: Any, *args: Any, **kwargs: Any) -> Any:
            with self._log.silent():
                return old(group, *args, **kwargs)

        return method

    def _write(self, hook: str, unit: int) -> None:
        self._hooked = hook
        self._writer.spend(FORWARD_ROOT if hook == "pre_forward" and unit == 0 else OF_HOOK[hook])
        self._writer.hook(hook, unit)

    def _at_group(self, hook: str, old: Any) -> Any:
        def method(group: Any, *args: Any, **kwargs: Any) -> Any:
            again = hook == "pre_backward" and group._training_state.name == "PRE_BACKWARD"
            if not again:
                self._log.casting = None
                self._write(hook, self.unit_of[id(self._state_of[id(group)])])
            with self._log.silent():
                return old(group, *args, **kwargs)

        return method

    def _at_state(self, hook: str, old: Any) -> Any:
        """A root without parameters has no group, and its hooks are places all the same."""

        def method(state: Any, *args: Any, **kwargs: Any) -> Any:
            again = self._recomputes(state) if hook == "post_forward" else self._root_backward
            bare = id(state) in self.unit_of and not again and not _groups(state)
            if bare:
                self._root_backward = hook == "pre_backward"
                self._write(hook, self.unit_of[id(state)])
            return old(state, *args, **kwargs)

        return method

    def _recomputes(self, state: Any) -> bool:
        return state._training_state.name == "PRE_BACKWARD"

    def _pre_forward(self, old: Any) -> Any:
        def method(state: Any, *args: Any, **kwargs: Any) -> Any:
            if self._recomputes(state):
                return old(state, *args, **kwargs)
            if state._state_ctx.iter_forward_root is None:
                state._lazy_init()
                self._root_backward = False
                self._root_forward(state)
            self._log.casting = self.unit_of.get(id(state))
            self._hooked = None
            try:
                result = old(state, *args, **kwargs)
            finally:
                self._log.casting = None
            if self._hooked is None and id(state) in self.unit_of:
                self._write("pre_forward", self.unit_of[id(state)])
            return result

        return method

    def _post_backward(self, old: Any) -> Any:
        def method(group: Any, *args: Any, **kwargs: Any) -> Any:
            self._mark_gradients(group)
            unit = self.unit_of[id(self._state_of[id(group)])]
            if not self._in_final_callback and unit != 0:
                self._write("post_backward", unit)
            with self._log.silent():
                return old(group, *args, **kwargs)

        return method

    def _final_callback(self, old: Any) -> Any:
        def method(state: Any) -> Any:
            self._write("backward_final", 0)
            self._in_final_callback = True
            try:
                with self._log.silent():
                    return old(state)
            finally:
                self._in_final_callback = False
                self._root_backward = False

        return method

    def _mark_gradients(self, group: Any) -> None:
        """What autograd has left in .grad of the unsharded parameters is FSDP2's from here on."""
        for parameter in group.fsdp_params:
            unsharded = getattr(parameter, "_unsharded_param", None)
            gradient = getattr(unsharded, "grad", None)
            if gradient is None:
                continue
            gradient = getattr(gradient, "_local_tensor", gradient)  # tensor parallelism's DTensor
            block = self._log.block_of(gradient)
            if block is not None and block.bytes == gradient.numel() * gradient.element_size():
                self._log.disown(gradient)
                block.extra["gradient_of"] = self.parameter_of[id(parameter)]


def _move_states_to_device(parameters: list[Any], buffers: list[Any], device: Any, *others: Any) -> None:
    """FSDP2's sets .data, which makes no fake tensor of a real one."""
    import torch

    for tensor in [*parameters, *buffers]:
        if tensor.device.type in (device.type, "meta"):
            continue
        moved = torch.empty_like(tensor, device=device)
        if isinstance(tensor, torch.nn.Parameter):
            moved = torch.nn.Parameter(moved, requires_grad=tensor.requires_grad)
        torch.utils.swap_tensors(tensor, moved)


def _groups(state: Any) -> list[Any]:
    from ..units import groups_of

    return groups_of(state)
