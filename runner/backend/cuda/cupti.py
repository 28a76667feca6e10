"""What the CUDA driver and the devices do in this process, as CUPTI's activity records tell it.

The one place where cupti-python is imported, when a recording is asked for. The numbers of kinds, of directions and of
kinds of memory are those of ``cupti_activity.h``. CUPTI serves one tool at a time: under Nsight Systems or Nsight
Compute nothing can be recorded.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from runner.backend.base import BackendError
from runner.backend.cuda.libraries import INSTALL
from runner.result.model import TraceEvent

_KINDS = ("DRIVER", "CONCURRENT_KERNEL", "MEMCPY", "MEMCPY2", "MEMSET")
_COPY, _SET, _CALL, _KERNEL, _PEER_COPY = 1, 2, 4, 10, 22
_DIRECTIONS = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
}
_HOST_MEMORY = {1: "pageable", 2: "pinned"}
_BUFFER_BYTES = 8 << 20
_FORCED = 1
"""Flag of a flush that also gives buffers that are not full."""
_VERSION_SUFFIX = re.compile(r"(_v\d+|_ptsz|_ptds)+$")


def version() -> str:
    """Version of ``cupti-python``, empty when it is not installed."""
    try:
        return importlib.metadata.version("cupti-python")
    except importlib.metadata.PackageNotFoundError:
        return ""


def reason() -> str:
    """Why nothing can be recorded here, and the remedy; empty when the package is there."""
    return "" if version() else f"cupti-python is not installed: {INSTALL}"


class Activities:
    """Collects activity records; times are microseconds since it was made."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._origin = int(library.get_timestamp())
        self._events: list[TraceEvent] = []
        self._problem: Exception | None = None
        self._calls: dict[int, str] = {}

    def now_us(self) -> float:
        """Now, on the clock of the records."""
        return (int(self._library.get_timestamp()) - self._origin) / 1e3

    def events(self) -> list[TraceEvent]:
        """Everything recorded so far. The devices must be idle: a record comes when its work has ended.

        Raises ``BackendError`` when CUPTI failed, or a record could not be read.
        """
        with _explained("deliver its records"):
            self._library.activity_flush_all(_FORCED)
        if self._problem is not None:
            raise BackendError(f"a CUPTI record could not be read: {self._problem!r}") from self._problem
        return list(self._events)

    def take(self, records: Sequence[Any]) -> None:
        """Called by CUPTI, in a thread of its own. The records live only until this returns."""
        try:
            for record in records:
                event = self._event(record)
                if event is not None:
                    self._events.append(event)
        except Exception as error:  # nobody above this frame could hear it; ``events`` raises it
            self._problem = error

    def _event(self, record: Any) -> TraceEvent | None:
        kind = int(record.kind)
        if kind not in (_CALL, _KERNEL, _SET, _COPY, _PEER_COPY):
            return None
        start, end = (record.start - self._origin) / 1e3, (record.end - self._origin) / 1e3
        correlation = int(record.correlation_id)
        if kind == _CALL:
            name = self._call(int(record.cbid))
            return TraceEvent("api", name, 0, 0, start, end, thread=int(record.thread_id), correlation=correlation)
        device, stream = int(record.device_id), int(record.stream_id)
        if kind == _KERNEL:
            return TraceEvent(
                "launch",
                str(record.name),
                device,
                stream,
                start,
                end,
                correlation=correlation,
                grid=f"{record.grid_x}x{record.grid_y}x{record.grid_z}",
                block=f"{record.block_x}x{record.block_y}x{record.block_z}",
                registers=int(record.registers_per_thread),
                shared_bytes=int(record.static_shared_memory + record.dynamic_shared_memory),
            )
        size = int(record.bytes)
        if kind == _SET:
            return TraceEvent("fill", "memset", device, stream, start, end, correlation=correlation, bytes=size)
        memory = _HOST_MEMORY.get(int(record.src_kind)) or _HOST_MEMORY.get(int(record.dst_kind), "")
        name = _DIRECTIONS.get(int(record.copy_kind), "other")
        return TraceEvent("copy", name, device, stream, start, end, correlation=correlation, bytes=size, memory=memory)

    def _call(self, number: int) -> str:
        if number not in self._calls:
            name = self._library.get_callback_name(self._library.CallbackDomain.DRIVER_API, number)
            self._calls[number] = _VERSION_SUFFIX.sub("", name.decode() if isinstance(name, bytes) else str(name))
        return self._calls[number]


class _Buffers:
    """Both callbacks that CUPTI knows; it takes them once per process."""

    def __init__(self) -> None:
        self.reader: Activities | None = None

    def requested(self) -> tuple[int, int]:
        """Size of a buffer, and how many records it may hold: as many as fit."""
        return _BUFFER_BYTES, 0

    def completed(self, records: Sequence[Any]) -> None:
        if self.reader is not None:
            self.reader.take(records)


@contextlib.contextmanager
def activities() -> Iterator[Activities]:
    """Records from here to the end of the block. Raises ``BackendError`` when CUPTI is missing or busy."""
    library, buffers = _library()
    reader = Activities(library)
    kinds = [getattr(library.ActivityKind, kind) for kind in _KINDS]
    enabled = []
    buffers.reader = reader
    try:
        with _explained("start"):
            for kind in kinds:
                library.activity_enable(kind)
                enabled.append(kind)
        yield reader
    finally:
        buffers.reader = None
        with _explained("stop"):
            for kind in enabled:
                library.activity_disable(kind)


@lru_cache(maxsize=1)
def _library() -> tuple[Any, _Buffers]:
    try:
        library = importlib.import_module("cupti.cupti")
    except ModuleNotFoundError as error:
        raise BackendError(f"cupti-python is not installed ({error}): {INSTALL}") from error
    except (ImportError, RuntimeError, OSError) as error:  # installed, but its shared libraries are not here
        again = "pip install --force-reinstall cupti-python nvidia-cuda-cupti"
        raise BackendError(f"cupti-python cannot be loaded ({error}): {again}") from error
    buffers = _Buffers()
    with _explained("start"):
        # The numbers that the system gives to threads, which are also ``threading.get_native_id``'s.
        library.set_thread_id_type(library.ActivityThreadIdType.SYSTEM)
        library.activity_register_callbacks(buffers.requested, buffers.completed)
    return library, buffers


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    """CUPTI's errors as ours, with what to do about the known ones."""
    try:
        yield
    except Exception as error:  # the package has its own type, known only once it is imported
        text = f"{error}"
        remedy = ""
        if "MULTIPLE_SUBSCRIBERS" in text:
            remedy = "; CUPTI serves one tool at a time: run without Nsight and without other profilers in the process"
        elif "INSUFFICIENT_PRIVILEGES" in text or "VIRTUALIZED" in text:
            remedy = "; the driver forbids profiling here: see NVIDIA's page on ERR_NVGPUCTRPERM"
        raise BackendError(f"CUPTI cannot {what}: {text}{remedy}") from error
