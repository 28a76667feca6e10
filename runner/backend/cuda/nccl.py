"""NCCL through its C interface: one process, a communicator for each device, on our streams and buffers."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from runner.backend.base import BackendError, Buffer, Device, Stream, Unsupported
from runner.backend.cuda.memory import CudaBuffer

if TYPE_CHECKING:
    from runner.backend.cuda.device import CudaDevice
    from runner.backend.cuda.stream import CudaStream

LIBRARY = "libnccl.so.2"
PACKAGE = "nvidia.nccl"
"""Where the wheels nvidia-nccl-cu12 and nvidia-nccl-cu13 put it, which PyTorch brings too."""
SETTINGS = {"NCCL_NVLS_ENABLE": "0"}
"""Set before the library is loaded: no NVLink multicast (NVLS). Its state outlives a process that fails, at the expense
of everybody on the machine."""
_FLOAT32, _SUM = 7, 0
"""``ncclFloat32`` and ``ncclSum``."""
_ITEM = 4
_POINTER, _SIZE, _INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
_SIGNATURES: dict[str, list[Any]] = {
    "ncclGetVersion": [ctypes.POINTER(_INT)],
    "ncclCommInitAll": [ctypes.POINTER(_POINTER), _INT, ctypes.POINTER(_INT)],
    "ncclCommDestroy": [_POINTER],
    "ncclGroupStart": [],
    "ncclGroupEnd": [],
    "ncclAllReduce": [_POINTER, _POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER],
    "ncclAllGather": [_POINTER, _POINTER, _SIZE, _INT, _POINTER, _POINTER],
    "ncclReduceScatter": [_POINTER, _POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER],
    "ncclSend": [_POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER],
    "ncclRecv": [_POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER],
}


@lru_cache(maxsize=1)
def library() -> Any:
    """The loaded library. Raises ``Unsupported`` with what was tried."""
    for name, value in SETTINGS.items():
        os.environ[name] = value
    tried = []
    for place in [*_installed(), LIBRARY]:
        try:
            return _declared(ctypes.CDLL(str(place)))
        except OSError as error:
            tried.append(str(error))
    raise Unsupported(f"NCCL is not installed (pip install '.[nccl]'): {'; '.join(tried)}")


def _installed() -> list[Path]:
    """In the Python packages of this process."""
    try:
        found = importlib.util.find_spec(PACKAGE)
    except ModuleNotFoundError:
        return []
    folders = found.submodule_search_locations if found and found.submodule_search_locations else []
    return [path for folder in folders if (path := Path(folder) / "lib" / LIBRARY).is_file()]


def _declared(loaded: Any) -> Any:
    for name, arguments in _SIGNATURES.items():
        function = getattr(loaded, name)
        function.argtypes, function.restype = arguments, ctypes.c_int
    for name, arguments in (("ncclGetErrorString", [ctypes.c_int]), ("ncclGetLastError", [ctypes.c_void_p])):
        function = getattr(loaded, name)
        function.argtypes, function.restype = arguments, ctypes.c_char_p
    return loaded


def version(loaded: Any) -> str:
    """``2.28.9``."""
    number = ctypes.c_int()
    loaded.ncclGetVersion(ctypes.byref(number))
    return f"{number.value // 10000}.{number.value // 100 % 100}.{number.value % 100}"


class Nccl:
    """Communicators of the devices of one experiment, which all belong to this thread."""

    def __init__(self, devices: Sequence[Device], streams: Sequence[Stream], load: Callable[[], Any] = library) -> None:
        """Raises ``Unsupported`` without the library, ``BackendError`` where it cannot connect the devices."""
        self._library = load()
        self._devices = [cast("CudaDevice", device) for device in devices]
        self._streams = [cast("CudaStream", stream) for stream in streams]
        self.version = version(self._library)
        count = len(self._devices)
        ordinals = (ctypes.c_int * count)(*(device.info.ordinal for device in self._devices))
        self._communicators = (ctypes.c_void_p * count)()
        with self._ours():
            result = self._library.ncclCommInitAll(self._communicators, count, ordinals)
        self._check(result, f"connect {count} devices")

    def _check(self, result: int, doing: str) -> None:
        if result:
            name = self._library.ncclGetErrorString(result).decode()
            last = (self._library.ncclGetLastError(None) or b"").decode().strip()
            raise BackendError(f"NCCL cannot {doing}: {name}" + (f" ({last})" if last else ""))

    @contextlib.contextmanager
    def _ours(self) -> Iterator[None]:
        """The library changes the current context and puts it back through CUDA's runtime; ours is made current
        again."""
        first = self._devices[0]
        first.activate()
        try:
            yield
        finally:
            first.errors.check(
                first.libraries.bindings.cuCtxSetCurrent(first.context_handle), "make a context current after NCCL"
            )

    def _grouped(self, doing: str, calls: Callable[[int], Sequence[int]]) -> None:
        """``calls(place)`` enqueues for the device at that position; all of them become one exchange."""
        for stream in self._streams:
            stream.ready()
        with self._ours():
            self._check(self._library.ncclGroupStart(), "begin a group")
            results: list[int] = []
            try:
                for place in range(len(self._devices)):
                    results += calls(place)
            finally:
                results.append(self._library.ncclGroupEnd())
        for result in results:
            self._check(result, doing)

    def _place(self, place: int) -> tuple[Any, int]:
        return self._communicators[place], self._streams[place].handle

    def all_reduce(self, inputs: Sequence[Buffer], outputs: Sequence[Buffer], count: int, first: int = 0) -> None:
        def call(place: int) -> list[int]:
            source, target = _address(inputs[place], first, count), _address(outputs[place], 0, count)
            return [self._library.ncclAllReduce(source, target, count, _FLOAT32, _SUM, *self._place(place))]

        self._grouped("all-reduce", call)

    def all_gather(self, inputs: Sequence[Buffer], outputs: Sequence[Buffer], count: int) -> None:
        def call(place: int) -> list[int]:
            source = _address(inputs[place], 0, count)
            target = _address(outputs[place], 0, count * len(self._devices))
            return [self._library.ncclAllGather(source, target, count, _FLOAT32, *self._place(place))]

        self._grouped("all-gather", call)

    def reduce_scatter(self, inputs: Sequence[Buffer], outputs: Sequence[Buffer], count: int) -> None:
        def call(place: int) -> list[int]:
            source = _address(inputs[place], 0, count * len(self._devices))
            target = _address(outputs[place], 0, count)
            return [self._library.ncclReduceScatter(source, target, count, _FLOAT32, _SUM, *self._place(place))]

        self._grouped("reduce-scatter", call)

    def all_to_all(
        self,
        inputs: Sequence[Buffer],
        outputs: Sequence[Buffer],
        parts: Sequence[Sequence[tuple[int, int, int]]],
    ) -> None:
        def call(place: int) -> list[int]:
            done = []
            for peer in range(len(self._devices)):
                first, _, count = parts[place][peer]
                if count:
                    source = _address(inputs[place], first, count)
                    done.append(self._library.ncclSend(source, count, _FLOAT32, peer, *self._place(place)))
                _, first, count = parts[peer][place]
                if count:
                    target = _address(outputs[place], first, count)
                    done.append(self._library.ncclRecv(target, count, _FLOAT32, peer, *self._place(place)))
            return done

        self._grouped("send and receive", call)

    def close(self) -> None:
        """A second call does nothing."""
        communicators, self._communicators = self._communicators, (ctypes.c_void_p * 0)()
        with self._ours():
            for communicator in communicators:
                self._library.ncclCommDestroy(communicator)


def _address(buffer: Buffer, first: int, count: int) -> int:
    return cast(CudaBuffer, buffer).span(first * _ITEM, count * _ITEM)
