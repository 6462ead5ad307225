"""torch.cuda on a machine without GPUs: streams, events and queries that answer and do nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

_DO_NOTHING = (
    "set_device", "synchronize", "empty_cache", "init", "_lazy_init", "set_stream", "manual_seed", "manual_seed_all",
    "seed", "seed_all", "set_rng_state", "set_rng_state_all", "reset_peak_memory_stats",
    "reset_accumulated_memory_stats", "ipc_collect", "set_per_process_memory_fraction",
)  # fmt: skip
_ARE_ZERO = (
    "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "current_device",
    "initial_seed",
)  # fmt: skip


class FakeEvent:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def record(self, stream: Any = None) -> None:
        pass

    def wait(self, stream: Any = None) -> None:
        pass

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end: Any) -> float:
        return 1.0  # milliseconds; loops divide by it


class FakeStream:
    """Also its own context manager, as torch.cuda.stream(stream) is."""

    device_index = 0
    cuda_stream = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def wait_event(self, event: Any) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        pass

    def record_event(self, event: Any = None) -> Any:
        return event or FakeEvent()

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def __enter__(self) -> FakeStream:
        return self

    def __exit__(self, *error: Any) -> None:
        pass


class FakeGpu:
    """What scripts and FSDP2 ask torch.cuda for, of a GPU with `sm_count` SMs and a compute capability."""

    def __init__(self, gpus: int, sm_count: int, capability: tuple[int, int], name: str, memory: int) -> None:
        self._gpus = gpus
        self._capability = capability
        self._name = name
        self._memory = memory
        self._properties = SimpleNamespace(
            name=name,
            major=capability[0],
            minor=capability[1],
            total_memory=memory,
            multi_processor_count=sm_count,
            warp_size=32,
            max_threads_per_multi_processor=2048,
        )

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        import torch
        from torch._subclasses import fake_tensor

        with contextlib.ExitStack() as stack:
            # Would make a real tensor on the GPU where torch.cuda.is_available() says yes.
            stack.enter_context(mock.patch.object(fake_tensor, "init_gpu_context", lambda *args: None, create=True))
            for name, value in self._names(torch).items():
                stack.enter_context(mock.patch.object(torch.cuda, name, value, create=True))
            if not torch.version.cuda:  # stream.wait_stream and tensor.record_stream ask for torch.Stream's own
                stack.enter_context(mock.patch.object(torch, "Event", FakeEvent))
            for name, value in _accelerator(torch, self._gpus).items():
                stack.enter_context(mock.patch.object(torch.accelerator, name, value))
            stack.enter_context(mock.patch.object(torch._C, "_get_accelerator", _answering(torch.device("cuda"))))
            stack.enter_context(mock.patch.object(torch.Tensor, "record_stream", lambda tensor, stream: None))
            stack.enter_context(mock.patch.object(torch.Tensor, "pin_memory", lambda tensor, *device: tensor))
            yield

    def _names(self, torch: Any) -> dict[str, Any]:
        stream = FakeStream()
        # Philox seed and offset: torch.cuda.get_rng_state is 16 bytes on the CPU.
        state = torch.zeros(16, dtype=torch.uint8)

        names: dict[str, Any] = {name: _answering(None) for name in _DO_NOTHING}
        names |= {name: _answering(0) for name in _ARE_ZERO}
        return names | {
            "is_available": lambda: True,
            "is_initialized": lambda: True,
            "device_count": lambda: self._gpus,
            "Stream": FakeStream,
            "Event": FakeEvent,
            "ExternalStream": FakeStream,
            "current_stream": lambda device=None: stream,
            "default_stream": lambda device=None: stream,
            "stream": lambda value: value or stream,
            "device": lambda value: contextlib.nullcontext(),
            "get_rng_state": lambda device=None: state.clone(),
            "get_rng_state_all": lambda: [state.clone()],
            "get_device_name": lambda device=None: self._name,
            "get_device_capability": lambda device=None: self._capability,
            "get_device_properties": lambda device=None: self._properties,
            "mem_get_info": lambda device=None: (self._memory, self._memory),
            "memory_stats": lambda device=None: {},
            "is_bf16_supported": lambda including_emulation=True: self._capability[0] >= 8,
            "is_current_stream_capturing": lambda: False,
        }


def _accelerator(torch: Any, gpus: int) -> dict[str, Any]:
    """torch.accelerator, as far as this PyTorch has it."""
    names = {
        "is_available": _answering(True),
        "device_count": _answering(gpus),
        "current_accelerator": _answering(torch.device("cuda")),
        "current_device_index": _answering(0),
        "current_device_idx": _answering(0),
        "set_device_index": _answering(None),
        "set_device_idx": _answering(None),
        "current_stream": _answering(FakeStream()),
        "set_stream": _answering(None),
        "synchronize": _answering(None),
    }
    return {name: value for name, value in names.items() if hasattr(torch.accelerator, name)}


def _answering(value: Any) -> Any:
    """A function of its own for each name: torch.compile keeps what it knows of torch's functions by object."""
    return lambda *args, **kwargs: value
