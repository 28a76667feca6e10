"""Programmatic dependent launch within a captured graph: a kernel that starts while the one ahead of it still runs."""

from __future__ import annotations

from typing import Any

from runner.backend.base import DeviceInfo
from runner.backend.cuda.errors import Errors

PROGRAMMATIC = 1
"""CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC and CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC."""
FIRST_ARCHITECTURE, FIRST_DRIVER = 90, (12, 3)
"""Before them kernels follow each other."""


def possible(info: DeviceInfo) -> bool:
    """Whether kernels of the device can overlap so."""
    architecture = int(info.arch.removeprefix("sm_").rstrip("af"))
    major, _, minor = info.cuda.partition(".")
    return architecture >= FIRST_ARCHITECTURE and (int(major), int(minor)) >= FIRST_DRIVER


def overlap_next(bindings: Any, errors: Errors, stream: int) -> None:
    """The kernel that ``stream`` captures next may start when all blocks of the kernel ahead of it have said so or
    ended; it must wait for that one's memory by itself. Does nothing where it follows anything but a single kernel.

    Raises ``BackendError`` when the driver refuses.
    """
    found = _latest(bindings, "cuStreamGetCaptureInfo", 3)(stream)
    errors.check(found, "read what a capture depends on")
    nodes, count = found[4], int(found[6])
    if count != 1:
        return
    kind = errors.check(bindings.cuGraphNodeGetType(nodes[0]), "read the type of a node")
    if kind != bindings.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL:
        return
    edge = bindings.CUgraphEdgeData()
    edge.from_port = edge.type = PROGRAMMATIC
    update = _latest(bindings, "cuStreamUpdateCaptureDependencies", 2)
    replace = int(bindings.CUstreamUpdateCaptureDependencies_flags.CU_STREAM_SET_CAPTURE_DEPENDENCIES)
    errors.check(update(stream, [nodes[0]], [edge], 1, replace), "let two kernels overlap")


def _latest(bindings: Any, name: str, version: int) -> Any:
    """The call that knows annotated edges: of CUDA 13 by its plain name, of CUDA 12 by its version."""
    return getattr(bindings, f"{name}_v{version}", None) or getattr(bindings, name)
