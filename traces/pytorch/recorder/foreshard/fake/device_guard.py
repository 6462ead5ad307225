"""Lets autograd work on tensors that say that they are on a GPU where no PyTorch for GPUs is installed.

Autograd asks the device guard of a tensor's device for a stream (torch/csrc/autograd/input_metadata.cpp,
input_buffer.cpp). A PyTorch built for CUDA has one, and FakeTensorMode puts one that does nothing in its place where
there is no GPU (c10/core/impl/DeviceGuardImplInterface.cpp, ensureCUDADeviceGuardSet). A PyTorch built for the CPU
alone has none: here it gets that of meta tensors (NoOpDeviceGuardImpl<DeviceType::Meta>), which has one stream and
switches nothing, with other answers to three questions: the device is cuda:0, and getDefaultStream, which that one
leaves out, is getStream.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

_Pointer = ctypes.c_void_p
_REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"  # c10::impl::device_guard_impl_registry
_CUDA, _META, _DEVICE_TYPES = 1, 14, 20  # c10/core/DeviceType.h
# Before a table's first function lie its offset and type information. The order of functions is that of
# DeviceGuardImplInterface: type, exchangeDevice, getDevice, setDevice, uncheckedSetDevice, getStream, getDefaultStream.
_BEFORE, _EXCHANGE_DEVICE, _GET_DEVICE, _GET_STREAM, _GET_DEFAULT_STREAM, _FUNCTIONS = 2, 1, 2, 5, 6, 32
# c10::Device is two bytes, type and index, and comes back in a register.
_CUDA_0 = _CUDA
_DeviceFunction = ctypes.CFUNCTYPE(ctypes.c_uint16, _Pointer, ctypes.c_uint16)

_kept: list[Any] = []  # the guard and its table, which live as long as the process


def ensure_device_guard() -> None:
    """Raises RuntimeError where this PyTorch's guards are not to be had."""
    import torch

    if torch.version.cuda or torch.version.hip or _kept:
        return
    try:
        library = ctypes.CDLL(_library())
        registry = (_Pointer * _DEVICE_TYPES).in_dll(library, _REGISTRY)
        if not registry[_META]:
            raise ValueError("no guard of meta tensors")
        functions = _Pointer.from_address(registry[_META]).value
        assert functions is not None
        size = ctypes.sizeof(_Pointer)
        table = (_Pointer * (_BEFORE + _FUNCTIONS))()
        ctypes.memmove(table, functions - _BEFORE * size, ctypes.sizeof(table))
    except (OSError, ValueError, StopIteration) as error:
        raise RuntimeError(
            f"fake recordings need autograd on GPU tensors, which this PyTorch {torch.__version__} without CUDA does "
            f"not have ({error}); install a PyTorch built for CUDA (a GPU is not needed)"
        ) from error
    table[_BEFORE + _GET_DEFAULT_STREAM] = table[_BEFORE + _GET_STREAM]
    cuda_0 = _DeviceFunction(lambda guard, device: _CUDA_0)
    for number in (_EXCHANGE_DEVICE, _GET_DEVICE):
        table[_BEFORE + number] = ctypes.cast(cuda_0, _Pointer).value
    guard = (_Pointer * 1)(ctypes.addressof(table) + _BEFORE * size)
    _kept.extend([table, guard, cuda_0])
    registry[_CUDA] = ctypes.addressof(guard)


def _library() -> str:
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return next(line.split()[-1] for line in lines if "libc10.so" in line)
