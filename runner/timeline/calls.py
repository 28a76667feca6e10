"""What a call on the host is, as far as the device's waiting is concerned."""

from __future__ import annotations

import re
from functools import lru_cache

from runner.result.model import TraceEvent

# The driver's names, the runtime's, and the host backend's.
_SYNC = re.compile(r"(cu|cuda|host)\w*Synchronize$")
_LAUNCH = re.compile(r"(cu|cuda|host)(Launch|GraphLaunch)")
_SUBMIT = re.compile(r"(cu|cuda|host)(Mem(cpy|set|Prefetch)\w*Async|Memset)")
_BLOCKING_COPY = re.compile(r"(cu|cuda|host)Memcpy(?!\w*Async)")
_ALLOC = re.compile(
    r"(cu|cuda|host)(Mem(Alloc|Free|Pool|HostAlloc|FreeHost|HostRegister|HostUnregister|Create|Release|Map|Unmap|Address|SetAccess)"
    r"|Malloc|Free|Host(Alloc|Register|Unregister)|Array(Create|Destroy))"
)


def is_launch(call: TraceEvent) -> bool:
    """It launches a kernel or a graph."""
    return call.kind == "api" and _LAUNCH.match(call.name) is not None


def kind_of(call: TraceEvent, copy: TraceEvent | None = None) -> str:
    """Word of ``GapCause.kind``. ``copy``: the device work that the call caused, if any.

    ``launch`` is any call that only hands work to the device: kernels, graphs, asynchronous copies and fills. A copy
    that the host waits for is ``copy``: one that is not asynchronous, or that reads or writes pageable memory. Waiting
    for an event on the device (``cuStreamWaitEvent``) does not hold the host, so it is ``api``.
    """
    if call.kind == "os":
        return "os"
    return _kind(call.name, copy is not None and copy.memory == "pageable")


@lru_cache(maxsize=4096)
def _kind(name: str, pageable: bool) -> str:
    if _LAUNCH.match(name):
        return "launch"
    if _SYNC.match(name):
        return "sync"
    if _ALLOC.match(name):
        return "alloc"
    if pageable or _BLOCKING_COPY.match(name):
        return "copy"
    return "launch" if _SUBMIT.match(name) else "api"
