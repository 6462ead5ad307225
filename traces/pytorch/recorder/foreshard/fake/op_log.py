"""Runs what touches the GPU on fake tensors and writes down every op, allocation and free."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensor, FakeTensorMode
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from .accumulation import InPlaceRules
from .collectives import write_collective
from .module_names import ModuleNames
from .op import Call
from .unseen import GpuRules
from .values import Values
from .workload import Block, WorkloadWriter

_SPACES_WITHOUT_KERNELS = ("prim", "_c10d_functional", "fsdp", "streams")


class FakeGpuMode(FakeTensorMode):
    """A GPU is played to the script (cuda.FakeGpu), but not to FakeTensorMode, which would initialise CUDA."""

    avoid_device_init = property(lambda mode: True, lambda mode, value: None)  # type: ignore[assignment]


class OpLog(TorchDispatchMode):
    """Ops on tensors of the GPU run on fake tensors; all others (data loaders, meshes, step counters on the CPU) run as
    they are. Frees are written when a storage's last tensor goes, as the host does it."""

    def __init__(self, writer: WorkloadWriter, rules: GpuRules) -> None:
        super().__init__()
        self._writer = writer
        self._rules = rules
        self._fake = FakeGpuMode(allow_non_fake_inputs=True)
        self._in_place = InPlaceRules()
        self._values = Values()
        self.modules = ModuleNames()
        self._blocks: dict[int, tuple[weakref.ref[Any], Block]] = {}  # by address of the StorageImpl
        self._silent = 0
        self.in_backward = False
        self.in_optimizer = False
        self.casting: int | None = None  # the unit whose forward inputs are cast right now
        self.read_numbers: list[str] = []  # ops that brought a number of the GPU to the host

    def calibrate(self) -> None:
        """Once, inside the mode, before the script."""
        with self.silent():
            self._in_place.calibrate()

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """What FSDP2 and the optimizer do by themselves: run, and not written."""
        self._silent += 1
        try:
            yield
        finally:
            self._silent -= 1

    def block_of(self, tensor: torch.Tensor) -> Block | None:
        """The allocation under a tensor, where it was written and is alive."""
        found = self._blocks.get(tensor.untyped_storage()._cdata)
        return found[1] if found else None

    def disown(self, tensor: torch.Tensor) -> Block | None:
        """FSDP2 frees this block from now on."""
        found = self._blocks.pop(tensor.untyped_storage()._cdata, None)
        return found[1] if found else None

    def stop(self) -> None:
        """Nothing is written from now on, frees of what was written included."""
        self._blocks.clear()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.prim.device.default and isinstance(args[0], FakeTensor):
            return args[0].fake_device
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # DTensor first, whose ops on local tensors come here
        if not _on_gpu(args, kwargs) or self._is_foreign(args, kwargs):
            return func(*args, **kwargs)
        if _comes_whole(func):
            with self:
                return func.decompose(*args, **kwargs)
        if func in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.item.default):
            return self._read_number(args[0])
        if func.namespace == "c10d":
            return _collective(func, args, kwargs)
        if func.name() == "_c10d_functional::_wrap_tensor_autograd":  # makes no tensor; its fake kernel does
            return AsyncCollectiveTensor(args[0])
        func = self._in_place.replaced(func, args, kwargs, self.in_backward)
        out = self._run(func, args, kwargs)
        # Its weak references to results would stand in the way of swap_tensors.
        self._fake.fake_tensor_converter.tensor_memo.clear()
        self._values.follow(func, args, kwargs, out)
        if not self._silent:
            self._write(Call(func, args, kwargs, out, self.in_backward))
        return self._on_host(args[0], out) if _leaves_gpu(args, out) else out

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        fake_args, fake_kwargs = tree_map(self._as_fake, (args, kwargs))
        try:
            with self._fake:
                return func(*fake_args, **fake_kwargs)
        except DynamicOutputShapeException as error:
            out = self._sized_by_values(func, args, kwargs)
            if out is None:
                raise RuntimeError(
                    f"{func}: the size of its result depends on numbers that a fake recording does not have; record a "
                    "run on GPUs, or take a code path with fixed sizes (of a mixture of experts: grouped_mm)"
                ) from error
            return out

    def _sized_by_values(self, func: Any, args: Any, kwargs: Any) -> Any:
        """nonzero and its like where the values are known, and boolean indices that are."""
        if func is torch.ops.aten.index.Tensor:
            indices = []
            for index in args[1]:
                mask = self._values.of(index) if index is not None and index.dtype == torch.bool else None
                whole = [index] if mask is None else mask.nonzero(as_tuple=True)
                indices.extend(whole)
            if any(index is not None and index.dtype == torch.bool for index in indices):
                return None
            with self._fake:
                places = [_made(index, "cuda") if _is_real(index) else index for index in indices]
                return func(args[0], places)
        real = self._values.computed(func, args, kwargs)
        if real is None:
            return None
        with self._fake:
            return tree_map(lambda value: _made(value, "cuda") if isinstance(value, torch.Tensor) else value, real)

    def _is_foreign(self, args: Any, kwargs: Any) -> bool:
        """Of another fake mode: DTensor asks for the shapes of whole tensors in one of its own."""
        return any(isinstance(t, FakeTensor) and t.fake_mode is not self._fake for t in tree_flatten((args, kwargs))[0])

    def _as_fake(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or isinstance(value, FakeTensor):
            return value
        with self._fake:
            return _made(value, value.device)

    def _on_host(self, source: torch.Tensor, copied: torch.Tensor) -> torch.Tensor:
        """cpu(): a real tensor, so that what the host computes goes on for real."""
        known = self._values.of(source)
        if known is not None:
            return known.to(copied.dtype)
        self._note("cpu")
        return torch.ones(copied.shape, dtype=copied.dtype)

    def _note(self, op: str) -> None:
        if not self._silent and self._writer.steps and op not in self.read_numbers:
            self.read_numbers.append(op)

    def _read_number(self, tensor: torch.Tensor) -> Any:
        """item(): where there is no number, 1 in its place lets most loops go on."""
        if not self._silent:
            self._writer.copy("aten::_local_scalar_dense", "device_to_host", tensor.element_size())
            self._writer.synchronize()
        known = self._values.of(tensor)
        if known is not None:
            return known.item()
        self._note("item")
        return self._values.guess(tensor)

    def _write(self, call: Call) -> None:
        if call.space in _SPACES_WITHOUT_KERNELS:
            call.new = self._new_storages(call)
            for tensor in call.new:
                self._allocate(tensor)
            write_collective(call, self._writer)
            return
        call.new = self._new_storages(call)
        self._rules.write(call, self._writer, self._allocate)

    def _new_storages(self, call: Call) -> list[torch.Tensor]:
        """Outputs on the GPU whose memory this op made, one for each."""
        new = []
        seen = {t.untyped_storage()._cdata for t in call.inputs}
        for tensor in call.outputs:
            address = tensor.untyped_storage()._cdata
            if address not in seen and address not in self._blocks and tensor.numel() > 0:
                new.append(tensor)
            seen.add(address)
        return new

    def _allocate(self, tensor: torch.Tensor, **extra: Any) -> Block:
        category = "optimizer_temporaries" if self.in_optimizer else None
        module = self.modules.now() if self._writer.steps else None
        block = self._writer.alloc(bytes_of(tensor), category, unit=self.casting, module=module or None, **extra)
        storage = tensor.untyped_storage()
        address = storage._cdata
        self._blocks[address] = (weakref.ref(storage, lambda _: self._gone(address)), block)
        return block

    def _gone(self, address: int) -> None:
        found = self._blocks.pop(address, None)
        if found is not None:
            self._writer.free(found[1])


def bytes_of(tensor: torch.Tensor) -> int:
    """Of the stretch of memory that the tensor covers: a fake kernel's storage may be larger than a CUDA kernel's."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return (last + 1) * tensor.element_size()


def _on_gpu(args: Any, kwargs: Any) -> bool:
    return any(
        isinstance(value, FakeTensor) or (isinstance(value, torch.device) and value.type == "cuda")
        for value in tree_flatten((args, kwargs))[0]
    )


def _comes_whole(func: Any) -> bool:
    """Below autograd (DTensor's own work) composite ops come undivided. An op with a kernel for CUDA beside its parts
    (_fused_rms_norm) is one op on a GPU, and has a formula of autograd's for CUDA."""
    name = func.name()
    return (
        func._can_decompose()
        and func is not torch.ops.aten.item.default
        and not torch._C._dispatch_has_kernel_for_dispatch_key(name, "CUDA")
        and not torch._C._dispatch_has_kernel_for_dispatch_key(name, "AutogradCUDA")
    )


def _leaves_gpu(args: Any, out: Any) -> bool:
    first = args[0] if args else None
    return (
        isinstance(first, torch.Tensor)
        and first.device.type == "cuda"
        and isinstance(out, torch.Tensor)
        and out.device.type == "cpu"
    )


def _collective(func: Any, args: Any, kwargs: Any) -> Any:
    """Of torch.distributed, on the fake process group, which does nothing, on empty tensors of the CPU."""
    originals: dict[int, Any] = {}
    kept = []

    def empty(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        made = torch.empty(0, dtype=value.dtype)
        kept.append(made)
        originals[id(made)] = value
        return made

    args, kwargs = tree_map(empty, (args, kwargs))
    return tree_map(lambda value: originals.get(id(value), value), func(*args, **kwargs))


def _made(like: torch.Tensor, device: Any) -> torch.Tensor:
    return torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=device)


def _is_real(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor)
