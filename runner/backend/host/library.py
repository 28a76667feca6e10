"""Compiled programs: loading them, their kernels, and the threads that run them."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from runner.backend.base import Argument, BackendError, LaunchError
from runner.backend.host.memory import HostBuffer, sanitized
from runner.backend.host.symbols import static_shared

if TYPE_CHECKING:
    from runner.backend.host.device import HostDevice

ERROR_BYTES = 256
"""Length of a launch's message: ``Launch::error`` in ``worker.h``."""


class _Entry(ctypes.Structure):
    """``host::Entry`` of ``cuda_src/host/unit.h``."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("invoke", ctypes.c_void_p),
        ("run", ctypes.c_void_p),
        ("count", ctypes.c_int),
        ("kinds", ctypes.POINTER(ctypes.c_char_p)),
    ]


class Library:
    """A shared library made from one ``.cu`` file."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise BackendError(f"cannot load {path}: no such file")
        if b"__asan_init" in path.read_bytes() and not sanitized():
            raise BackendError(
                f"cannot load {path}: it was compiled with sanitize=true, and the address sanitizer is not "
                "preloaded into this process (runner.build.host.sanitizer_environment)"
            )
        try:
            self.native = ctypes.CDLL(str(path))
            self.native.host_abi.restype = ctypes.c_char_p
            self.native.host_entries.restype = ctypes.POINTER(_Entry)
        except (OSError, AttributeError) as error:
            raise BackendError(f"cannot load {path} as a host program: {error}") from error
        self.native.host_pool_create.argtypes = [ctypes.c_uint]
        self.native.host_pool_create.restype = ctypes.c_void_p
        self.native.host_pool_destroy.argtypes = [ctypes.c_void_p]
        self.native.host_pool_destroy.restype = None
        self.native.host_launch.argtypes = [
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_uint * 3,
            ctypes.c_uint * 3,
            ctypes.c_size_t,
            ctypes.c_char_p,
            ctypes.c_int,
            ctypes.c_uint64,
            ctypes.c_int,
            ctypes.c_char_p,
        ]
        self.abi: bytes = self.native.host_abi()
        if sanitized():
            self._register_static_shared(path)
        self.entries: dict[str, tuple[int, tuple[str, ...]]] = {}
        table = self.native.host_entries()
        index = 0
        while table[index].name:
            entry = table[index]
            kinds = tuple(entry.kinds[i].decode() for i in range(entry.count))
            self.entries[entry.name.decode()] = (
                ctypes.addressof(table.contents) + index * ctypes.sizeof(_Entry),
                kinds,
            )
            index += 1

    def _register_static_shared(self, path: Path) -> None:
        """Tells the program where its static shared memory is, to be overwritten before every block."""
        anchor, variables = static_shared(path, "host_abi")
        base = (ctypes.cast(self.native.host_abi, ctypes.c_void_p).value or 0) - anchor
        self._spans = (ctypes.c_uint64 * (2 * len(variables)))(
            *(word for one in variables for word in (base + one.offset, one.nbytes))
        )
        self.native.host_static_shared(self._spans, ctypes.c_uint(len(variables)))


@cache
def load(path: Path) -> Library:
    """Libraries stay loaded: their threads may run as long as the process."""
    return Library(path)


_first: dict[bytes, Library] = {}


def runtime(library: Library) -> Library:
    """The library whose threads serve all with the same ``abi``: the first one loaded."""
    return _first.setdefault(library.abi, library)


class HostFunction:
    """A kernel on one device."""

    def __init__(self, device: HostDevice, name: str, entry: int, kinds: tuple[str, ...], abi: bytes) -> None:
        self.device = device
        self.name = name
        self.entry = entry
        self.kinds = kinds
        self.abi = abi

    def pack(self, arguments: Sequence[Argument]) -> bytes:
        """Eight bytes an argument. Raises ``LaunchError`` when number or types are not the kernel's."""
        if len(arguments) != len(self.kinds):
            raise LaunchError(f"kernel {self.name} takes {len(self.kinds)} arguments, not {len(arguments)}")
        return b"".join(
            self._pack(index, kind, argument)
            for index, (kind, argument) in enumerate(zip(self.kinds, arguments, strict=True))
        )

    def _pack(self, index: int, kind: str, argument: Argument) -> bytes:
        if kind == "p":
            if isinstance(argument, HostBuffer):
                if not self.device.may_address(argument.device):
                    raise LaunchError(
                        f"kernel {self.name}, argument {index}: the buffer belongs to device "
                        f"{argument.device.info.ordinal}, and device {self.device.info.ordinal} has no access to it"
                    )
                return struct.pack("<Q", argument.address)
            if isinstance(argument, np.uint64):  # an address
                return struct.pack("<Q", int(argument))
        elif isinstance(argument, np.generic) and argument.dtype.str[1:] == kind:
            return argument.tobytes().ljust(8, b"\0")
        raise LaunchError(
            f"kernel {self.name}, argument {index}: the kernel takes {_wanted(kind)}, not {_given(argument)}"
        )


def _wanted(kind: str) -> str:
    if kind == "p":
        return "a buffer"
    return "a type that cannot be passed by value here" if kind == "?" else np.dtype(kind).name


def _given(argument: Any) -> str:
    if isinstance(argument, HostBuffer):
        return "a buffer"
    return str(argument.dtype) if isinstance(argument, np.generic) else type(argument).__name__


class HostModule:
    """A program loaded on one device."""

    def __init__(self, device: HostDevice, path: Path) -> None:
        self._device = device
        self.program = path
        self._library = load(path.resolve())
        runtime(self._library)

    def function(self, name: str) -> HostFunction:
        """Raises ``LaunchError`` naming the function and those that exist."""
        found = self._library.entries.get(name)
        if found is None:
            known = ", ".join(sorted(self._library.entries)) or "none"
            raise LaunchError(f"no kernel {name} in {self.program.name}; it has: {known}")
        return HostFunction(self._device, name, *found, self._library.abi)


class Threads:
    """One device's OS threads, for each runtime its programs need."""

    def __init__(self, cores: int) -> None:
        self._cores = cores
        self._pools: dict[bytes, tuple[Any, int]] = {}

    def of(self, abi: bytes) -> tuple[Any, int]:
        """(library whose code runs the launch, its pool)."""
        pool = self._pools.get(abi)
        if pool is None:
            native = _first[abi].native
            pool = self._pools[abi] = (native, native.host_pool_create(self._cores))
        return pool

    def close(self) -> None:
        """Ends the threads. No launch may be running."""
        for native, pool in self._pools.values():
            native.host_pool_destroy(pool)
        self._pools.clear()
