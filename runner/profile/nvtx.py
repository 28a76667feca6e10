"""NVTX ranges: names on a profiler's timeline. Without the ``nvtx`` package every call does nothing.

A range costs under a microsecond while no tool listens. Ranges are pushed in the default domain, per thread.

The worker follows this protocol, so that any tool can be put round it:

* In a timed run, ranges go round whole phases, never round a sample: ``<phase>/<kernel>/prepare``,
  ``<name>/check``, and ``<name>`` round the measurement, where ``<name>`` is ``<phase>/<kernel>/<variant>``.
* In a profiled run, each variant is first reset, run once and synchronised; then its hot region, ``steps``
  steps and a synchronisation of every device, runs within ``capture(backend, name)``. Variants follow one
  another in the order asked for. Nothing is timed. Then the process ends by itself, since the tool writes
  its reports when it does.

``capture`` opens the range ``runner_capture`` (what a tool without a GPU waits for: it knows one name),
starts the profiler through the backend (what a tool with a GPU waits for), and opens the variant's own
range inside both, so that it lies within the report either way.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import re
from collections.abc import Iterator
from functools import lru_cache
from types import ModuleType
from typing import Protocol

CAPTURE = "runner_capture"
"""The one range name that a capture by NVTX range waits for."""
_UNRECORDED_FROM = (0, 2, 12)
_RECORDED_AFTER = (2023, 4)


class ProfilerControl(Protocol):
    """The part of a backend that marks the captured region."""

    def start_profiler(self) -> None: ...
    def stop_profiler(self) -> None: ...


@lru_cache(maxsize=1)
def _package() -> ModuleType | None:
    try:
        import nvtx
    except ImportError:
        return None
    module: ModuleType = nvtx
    return module


def push(name: str) -> None:
    """Opens a range on this thread."""
    package = _package()
    if package is not None:
        package.push_range(name)


def pop() -> None:
    """Closes the range opened last on this thread."""
    package = _package()
    if package is not None:
        package.pop_range()


@contextlib.contextmanager
def range(name: str) -> Iterator[None]:
    """A range round a block, closed also when the block raises."""
    push(name)
    try:
        yield
    finally:
        pop()


@contextlib.contextmanager
def capture(backend: ProfilerControl, name: str) -> Iterator[None]:
    """What a profiler records: the block, under the range ``name``. The block ends with the devices idle."""
    with range(CAPTURE):
        backend.start_profiler()
        try:
            with range(name):
                yield
        finally:
            backend.stop_profiler()


def version() -> str:
    """Version of the ``nvtx`` package, empty when it is not installed."""
    try:
        return importlib.metadata.version("nvtx")
    except importlib.metadata.PackageNotFoundError:
        return ""


def unrecorded(nvtx_version: str, nsys_version: str) -> str:
    """Why this Nsight Systems misses the ranges of this ``nvtx``, and what to do; empty when it should
    not."""
    if not nvtx_version:
        return "the nvtx package is not installed, so no range is emitted: pip install 'nvtx<0.2.12'"
    if _numbers(nvtx_version) >= _UNRECORDED_FROM and (0,) < _numbers(nsys_version)[:2] <= _RECORDED_AFTER:
        return (
            f"nvtx {nvtx_version} is not recorded by Nsight Systems {nsys_version}: "
            "pip install 'nvtx<0.2.12', or install a newer Nsight Systems"
        )
    return ""


def attached() -> str:
    """The tool this process runs under, judged by its injection variables; empty when there is none.

    Times taken then are never to be reported as times.
    """
    for variable, tool in (
        ("NSYS_PROFILING_SESSION_ID", "nsys"),
        ("CUDA_INJECTION64_PATH", "a CUDA injection library"),
        ("NVTX_INJECTION64_PATH", "an NVTX injection library"),
    ):
        if os.environ.get(variable):
            return tool
    return ""


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:4])
