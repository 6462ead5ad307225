"""libforeshard_collectives.so by ctypes: its functions (gpu/torch_collectives/foreshard_collectives.h) and their
errors."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

ABI = 2
ADDRESS_BYTES = 64
NAME = "libforeshard_collectives.so"
PATH_VARIABLE = "FORESHARD_COLLECTIVES_LIBRARY"

# As the header numbers them, by the names of torch.dtype.
DTYPES = {"float32": 0, "bfloat16": 1, "float16": 2}

OUT_OF_MEMORY = 10  # of docs/exit_codes.md

_SIGNATURES = {
    "open": [ctypes.c_uint32, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_void_p],
    "connect": [ctypes.c_void_p, ctypes.c_char_p],
    "close": [ctypes.c_void_p],
    "select": [ctypes.c_void_p],
    "contains": [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t],
    "all_gather": [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p],
    "reduce_scatter": [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                       ctypes.c_float, ctypes.c_void_p],
    "watch": [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64],
}  # fmt: skip


class CollectiveError(RuntimeError):
    """A call of the library that failed; `code` is one of docs/exit_codes.md."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Library:
    """The functions, which raise CollectiveError; handles and addresses are integers."""

    def __init__(self, path: str) -> None:
        """Raises OSError where the library cannot be loaded, or is another version's."""
        self.path = path
        self._library = ctypes.CDLL(path)
        try:
            found = self._function("abi")()
            if found != ABI:
                raise OSError(f"{path} has interface {found}; this package needs {ABI}")
            self._function("error").restype = ctypes.c_char_p
            for name, arguments in _SIGNATURES.items():
                self._function(name).argtypes = arguments
        except AttributeError as error:
            raise OSError(f"{path} is not this package's library: {error}") from None
        for name in ("close", "select"):
            self._function(name).restype = None

    def open(self, rank: int, ranks: int, device: int, timeout_ms: int) -> tuple[int, bytes]:
        """The handle of a group, and this rank's address."""
        address = ctypes.create_string_buffer(ADDRESS_BYTES)
        handle = ctypes.c_void_p()
        self._call("open", rank, ranks, device, timeout_ms, address, ctypes.byref(handle))
        return int(handle.value or 0), address.raw

    def connect(self, handle: int, addresses: list[bytes]) -> None:
        self._call("connect", handle, b"".join(addresses))

    def close(self, handle: int) -> None:
        self._function("close")(handle)

    def select(self, handle: int) -> None:
        """Of 0: none. Forgets the thread's last failure."""
        self._function("select")(handle)

    def contains(self, handle: int, memory: int, size: int) -> bool:
        return bool(self._function("contains")(handle, memory, size))

    def all_gather(self, handle: int, source: int, target: int, size: int, stream: int) -> None:
        self._call("all_gather", handle, source, target, size, stream)

    def reduce_scatter(
        self, handle: int, source: int, target: int, count: int, dtypes: tuple[int, int], scale: float, stream: int
    ) -> None:
        self._call("reduce_scatter", handle, source, target, count, *dtypes, scale, stream)

    def watch(self, handle: int, milliseconds: int, grace_ms: int) -> None:
        """After a failure the process ends `grace_ms` later, with the error's code."""
        self._call("watch", handle, milliseconds, grace_ms)

    def error(self) -> str:
        """Of the last call that failed on this thread."""
        return self._function("error")().decode(errors="replace")

    def error_number(self) -> int:
        """Likewise; 0: none since the last select()."""
        return int(self._function("error_number")())

    def _function(self, name: str):  # noqa: ANN202 (ctypes has no public type for it)
        return getattr(self._library, f"foreshard_collectives_{name}")

    def _call(self, name: str, *arguments: object) -> None:
        code = self._function(name)(*arguments)
        if code != 0:
            raise CollectiveError(code, self.error())


def load() -> Library:
    """The library beside this file, or where FORESHARD_COLLECTIVES_LIBRARY says. Raises OSError."""
    path = os.environ.get(PATH_VARIABLE) or str(Path(__file__).with_name(NAME))
    if not os.path.exists(path):
        raise OSError(f"{path} is missing: the package was built without CUDA")
    return Library(path)
