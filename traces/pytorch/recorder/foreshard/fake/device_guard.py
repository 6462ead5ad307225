"""Lets autograd work on tensors that say that they are on a GPU where no PyTorch for GPUs is installed.

Autograd asks the device guard of a tensor's device for a stream (torch/csrc/autograd/input_metadata.cpp,
input_buffer.cpp). A PyTorch built for CUDA has one, and FakeTensorMode puts one that does nothing in its place where
there is no GPU (c10/core/impl/DeviceGuardImplInterface.cpp, ensureCUDADeviceGuardSet). A PyTorch built for the CPU
alone has none: here it gets that of meta tensors (NoOpDeviceGuardImpl<DeviceType::Meta>), which has one stream and
switches nothing, with other answers to three questions: the device is cuda:0, and getDefaultStream, which that one
leaves out, is getStream.

From 2.10 on the engine wants more: a stream for each tensor of an accelerator (engine.cpp, evaluate_function), and an
answer of CUDA's hooks to whether device 0 has a context (GraphTask::stash_current_streams), which they refuse where no
GPU is visible. There the guard is PyTorch's own for back ends that are written in Python (torch/csrc/acc/Module.cpp,
PythonDeviceGuard: one device, one stream, switches nothing), put in CUDA's place, and the hooks say yes.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

_Pointer = ctypes.c_void_p
_REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"  # c10::impl::device_guard_impl_registry
_CUDA, _META, _PRIVATE_USE_1, _DEVICE_TYPES = 1, 14, 20, 21  # c10/core/DeviceType.h
# Before a table's first function lie its offset and type information. The order of functions is that of
# DeviceGuardImplInterface: type, exchangeDevice, getDevice, setDevice, uncheckedSetDevice, getStream, getDefaultStream.
_BEFORE, _EXCHANGE_DEVICE, _GET_DEVICE, _GET_STREAM, _GET_DEFAULT_STREAM, _FUNCTIONS = 2, 1, 2, 5, 6, 32
# c10::Device is two bytes, type and index, and comes back in a register.
_CUDA_0 = _CUDA
_DeviceFunction = ctypes.CFUNCTYPE(ctypes.c_uint16, _Pointer, ctypes.c_uint16)
_GET_HOOKS = "_ZN2at6detail12getCUDAHooksEv"  # at::detail::getCUDAHooks
# The order of AcceleratorHooksInterface's functions, after two destructors: isBuilt, isAvailable, hasPrimaryContext.
_IS_BUILT, _IS_AVAILABLE, _HAS_PRIMARY_CONTEXT, _HOOKS = 2, 3, 4, 64
_HooksFunction = ctypes.CFUNCTYPE(ctypes.c_bool, _Pointer, ctypes.c_int8)

_kept: list[Any] = []  # the guard and its table, which live as long as the process


def ensure_device_guard() -> None:
    """Once a process, for good. Raises RuntimeError where this PyTorch's guards are not to be had."""
    import torch

    if _kept or torch.version.hip or torch.cuda.device_count() > 0:
        return
    python_guards = getattr(torch._C, "_acc", None)
    if torch.version.cuda and python_guards is None:
        return  # FakeTensorMode's guard (ensureCUDADeviceGuardSet)
    try:
        registry = (_Pointer * _DEVICE_TYPES).in_dll(ctypes.CDLL(_library("libc10.so")), _REGISTRY)
        if python_guards is not None:
            _use_python_guard(torch, python_guards, registry)
        else:
            _use_meta_guard(registry)
    except (AttributeError, OSError, ValueError, StopIteration) as error:
        raise RuntimeError(
            f"fake recordings need autograd on GPU tensors, which this PyTorch {torch.__version__} does not have where "
            f"no GPU is visible ({error}); record where one is, or install another PyTorch"
        ) from error


def _use_python_guard(torch: Any, python_guards: Any, registry: Any) -> None:
    class Guard(python_guards.DeviceGuard):  # type: ignore[misc, name-defined]
        def type_(self) -> Any:
            return torch._C._autograd.DeviceType.CUDA

    get_hooks = ctypes.CDLL(_library("libtorch_cpu.so"))[_GET_HOOKS]
    get_hooks.restype = _Pointer
    hooks = _Pointer.from_address(get_hooks())
    assert hooks.value is not None
    size = ctypes.sizeof(_Pointer)
    table = (_Pointer * (_BEFORE + _HOOKS))()
    ctypes.memmove(table, hooks.value - _BEFORE * size, ctypes.sizeof(table))
    said = [_HooksFunction(table[_BEFORE + i])(ctypes.addressof(hooks), 0) for i in (_IS_BUILT, _IS_AVAILABLE)]
    if said != [bool(torch.version.cuda), False]:
        raise ValueError("CUDA's hooks are not as known")
    yes = _HooksFunction(lambda hooks, device: True)
    for number in (_IS_BUILT, _HAS_PRIMARY_CONTEXT):
        table[_BEFORE + number] = ctypes.cast(yes, _Pointer).value
    guard = Guard()
    _kept.extend([guard, table, yes])
    other = registry[_PRIVATE_USE_1]
    python_guards.register_python_privateuseone_device_guard(guard)
    registry[_CUDA], registry[_PRIVATE_USE_1] = registry[_PRIVATE_USE_1], other
    hooks.value = ctypes.addressof(table) + _BEFORE * size


def _use_meta_guard(registry: Any) -> None:
    if not registry[_META]:
        raise ValueError("no guard of meta tensors")
    functions = _Pointer.from_address(registry[_META]).value
    assert functions is not None
    size = ctypes.sizeof(_Pointer)
    table = (_Pointer * (_BEFORE + _FUNCTIONS))()
    ctypes.memmove(table, functions - _BEFORE * size, ctypes.sizeof(table))
    table[_BEFORE + _GET_DEFAULT_STREAM] = table[_BEFORE + _GET_STREAM]
    cuda_0 = _DeviceFunction(lambda guard, device: _CUDA_0)
    for number in (_EXCHANGE_DEVICE, _GET_DEVICE):
        table[_BEFORE + number] = ctypes.cast(cuda_0, _Pointer).value
    guard = (_Pointer * 1)(ctypes.addressof(table) + _BEFORE * size)
    _kept.extend([table, guard, cuda_0])
    registry[_CUDA] = ctypes.addressof(guard)


def _library(name: str) -> str:
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return next(line.split()[-1] for line in lines if f"/{name}" in line)
