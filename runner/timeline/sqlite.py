"""Reads what ``nsys export --type=sqlite`` wrote, each table once.

The layout changes with the version of Nsight Systems (2022.4 to 2025): empty tables are left out, columns come and go.
What is missing is empty here. Times become microseconds from the earliest event.
"""

from __future__ import annotations

import contextlib
import gc
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runner.result.model import TraceEvent
from runner.timeline.trace import Trace

_KERNEL, _GRAPH = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_COPY, _FILL = "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"
_API = ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER")
_OS, _NVTX = "OSRT_API", "NVTX_EVENTS"

_RANGES = "(59, 60)"
"""``eventType`` of push-pop and of start-end ranges."""
_OS_CALL = 27
"""``eventClass`` of a call; the table also marks where the recording started."""
_DIRECTIONS = {1: "HtoD", 2: "DtoH", 8: "DtoD", 9: "HtoH", 10: "PtoP", 11: "HtoD", 12: "DtoH", 13: "DtoD"}
"""``copyKind``; 11 to 13 are migrations of unified memory."""
_HOST_MEMORY = {0: "pageable", 1: "pinned"}
_SUFFIX = re.compile(r"(?:_v\d+|_ptsz|_ptds)+$")
"""Of a call: the version of its signature, and the per-thread default stream."""
_WRAPPER = re.compile(r"kernel\d*|device_kernel", re.IGNORECASE)
"""Names that say nothing: CUTLASS and CuTe give the kernel itself as a template argument."""
_ARGUMENT = re.compile(r"<\s*(?:(?:\w+::)*enable_\w+<)?\s*(?:\w+::)*(\w+)")


def read(database: Path) -> Trace:
    """The whole export. Raises ``sqlite3.Error`` when it is none."""
    with contextlib.closing(sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True)) as connection:
        # Millions of events that stay: looking for garbage among them would take most of the time.
        collecting = gc.isenabled()
        gc.disable()
        try:
            return _Reader(connection).trace()
        finally:
            if collecting:
                gc.enable()


def call_name(name: str) -> str:
    """Name of a CUDA function without version and stream suffix: ``cuMemAlloc_v2`` → ``cuMemAlloc``."""
    return _SUFFIX.sub("", name)


def kernel_name(short: str, signature: str) -> str:
    """``short``, or with what it wraps where it says nothing: ``Kernel2<cutlass_80_tensorop_…>``."""
    if _WRAPPER.fullmatch(short) and (found := _ARGUMENT.search(signature)):
        return f"{short}<{found[1]}>"
    return short


class _Reader:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        self._columns = {
            table: {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
            for table in (_KERNEL, _GRAPH, _COPY, _FILL, *_API, _OS, _NVTX, "ThreadNames", "TARGET_INFO_GPU")
            if table in tables
        }
        self._strings: dict[int, str] = {}
        if "StringIds" in tables:
            self._strings = dict(connection.execute("SELECT id, value FROM StringIds"))
        self._origin = 0
        self._processes: dict[int, int] = {}
        self._signatures: dict[str, str] = {}

    def trace(self) -> Trace:
        timed = [table for table in (_KERNEL, _GRAPH, _COPY, _FILL, *_API, _OS, _NVTX) if table in self._columns]
        starts = [
            self._db.execute(f"SELECT MIN(start) FROM {table}{self._only(table)}").fetchone()[0] for table in timed
        ]
        self._origin = min((start for start in starts if start is not None), default=0)
        events: list[TraceEvent] = []
        for read_table in (self._kernels, self._graphs, self._copies, self._fills, self._apis, self._oses, self._nvtx):
            events.extend(read_table())
        return Trace(events, self._threads(), self._gpus(), self._signatures)

    def _only(self, table: str) -> str:
        """Rows that are one of our events, and have ended."""
        wanted = "end IS NOT NULL AND start IS NOT NULL"
        if table == _NVTX:
            wanted += f" AND eventType IN {_RANGES}"
        if table == _OS and "eventClass" in self._columns[_OS]:
            wanted += f" AND eventClass = {_OS_CALL}"
        return f" WHERE {wanted}"

    def _rows(self, table: str, *columns: str) -> Iterator[tuple[Any, ...]]:
        """Start and end in µs, then these columns; one that the table lacks is 0. A name with ``|`` names two columns,
        of which the first that is there and not null counts."""
        if table not in self._columns:
            return iter(())
        chosen = []
        for names in columns:
            there = [name for name in names.split("|") if name in self._columns[table]]
            chosen.append(f"COALESCE({', '.join(there)}, 0)" if there else "0")
        times = ", ".join(f"({name} - {self._origin}) / 1000.0" for name in ("start", "end"))
        return self._db.execute(f"SELECT {times}, {', '.join(chosen)} FROM {table}{self._only(table)}")

    def _base(self, process_or_thread: int) -> int:
        """What to add to the correlations of a process, so that those of two differ. A global number of a thread is
        that of its process with the thread's in the lower 24 bits."""
        return self._processes.setdefault(process_or_thread >> 24, len(self._processes)) << 32

    def _text(self, number: int) -> str:
        return self._strings.get(number, str(number))

    def _kernels(self) -> Iterator[TraceEvent]:
        names: dict[tuple[int, int], str] = {}
        dims: dict[tuple[int, int, int], str] = {}
        rows = self._rows(
            _KERNEL, "deviceId", "streamId", "correlationId", "globalPid", "shortName|demangledName", "demangledName",
            "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "registersPerThread", "staticSharedMemory",
            "dynamicSharedMemory",
        )  # fmt: skip
        for start, end, device, stream, correlation, process, short, long, *shape, registers, static, dynamic in rows:
            name = names.get((short, long))
            if name is None:
                name = names[short, long] = kernel_name(self._text(short), self._text(long))
                if long and long != short:
                    self._signatures.setdefault(name, self._text(long))
            grid, block = tuple(shape[:3]), tuple(shape[3:])
            for dim in (grid, block):
                if dim not in dims:
                    dims[dim] = "x".join(map(str, dim))
            yield TraceEvent(
                "launch", name, device, stream, start, end, 0, correlation + self._base(process), 0,
                dims[grid], dims[block], registers, static + dynamic,
            )  # fmt: skip

    def _graphs(self) -> Iterator[TraceEvent]:
        for start, end, device, stream, correlation, process, graph in self._rows(
            _GRAPH, "deviceId", "streamId", "correlationId", "globalPid", "graphId"
        ):
            yield TraceEvent(
                "graph", f"graph {graph}", device, stream, start, end, 0, correlation + self._base(process)
            )

    def _copies(self) -> Iterator[TraceEvent]:
        for start, end, device, stream, correlation, process, size, kind, source, target in self._rows(
            _COPY, "deviceId", "streamId", "correlationId", "globalPid", "bytes", "copyKind", "srcKind", "dstKind"
        ):
            direction = _DIRECTIONS.get(kind, "other")
            host = {"HtoD": source, "DtoH": target}.get(direction)
            yield TraceEvent(
                "copy", direction, device, stream, start, end, 0, correlation + self._base(process), size,
                memory=_HOST_MEMORY.get(host, "") if host is not None else "",
            )  # fmt: skip

    def _fills(self) -> Iterator[TraceEvent]:
        for start, end, device, stream, correlation, process, size in self._rows(
            _FILL, "deviceId", "streamId", "correlationId", "globalPid", "bytes"
        ):
            yield TraceEvent("fill", "memset", device, stream, start, end, 0, correlation + self._base(process), size)

    def _apis(self) -> Iterator[TraceEvent]:
        names: dict[int, str] = {}
        for table in _API:
            for start, end, thread, correlation, number in self._rows(table, "globalTid", "correlationId", "nameId"):
                name = names.get(number)
                if name is None:
                    name = names[number] = call_name(self._text(number))
                number = correlation + self._base(thread)
                yield TraceEvent("api", name, 0, 0, start, end, thread & 0xFFFFFF, number)

    def _oses(self) -> Iterator[TraceEvent]:
        for start, end, thread, name in self._rows(_OS, "globalTid", "nameId"):
            yield TraceEvent("os", self._text(name), 0, 0, start, end, thread & 0xFFFFFF)

    def _nvtx(self) -> Iterator[TraceEvent]:
        for start, end, thread, text in self._rows(_NVTX, "globalTid", "text|textId"):
            # Registered strings lie in the table of strings, others in the event.
            name = text if isinstance(text, str) else self._strings.get(text, "")
            if name:
                yield TraceEvent("range", name, 0, 0, start, end, thread & 0xFFFFFF)

    def _threads(self) -> dict[int, str]:
        if not {"nameId", "globalTid"} <= self._columns.get("ThreadNames", set()):
            return {}
        rows = self._db.execute("SELECT globalTid, nameId FROM ThreadNames")
        return {thread & 0xFFFFFF: self._text(name) for thread, name in rows}

    def _gpus(self) -> dict[int, str]:
        columns = self._columns.get("TARGET_INFO_GPU", set())
        number = next((name for name in ("cuDevice", "id") if name in columns), "")
        if not number or "name" not in columns:
            return {}
        return dict(self._db.execute(f"SELECT {number}, name FROM TARGET_INFO_GPU WHERE {number} IS NOT NULL"))
