"""Events and graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from runner.backend.base import BackendError, Event, Stream

if TYPE_CHECKING:
    from runner.backend.cuda.device import CudaDevice
    from runner.backend.cuda.stream import CudaStream


class CudaEvent:
    """A mark in a stream, created with timing."""

    def __init__(self, device: CudaDevice) -> None:
        device.activate()
        self._device = device
        self.recorded = False
        with device.errors.at("create an event"):
            self.native = device.libraries.pycuda.Event()

    def synchronize(self) -> None:
        self._device.activate()
        with self._device.errors.at("wait for an event"):
            self.native.synchronize()

    def done(self) -> bool:
        self._device.activate()
        with self._device.errors.at("query an event"):
            return bool(self.native.query())

    def elapsed_us(self, since: Event) -> float:
        first = cast(CudaEvent, since)
        if not (self.recorded and first.recorded):
            raise BackendError("elapsed_us needs two recorded events")
        self._device.activate()
        with self._device.errors.at("read the time between two events"):
            return float(self.native.time_since(first.native)) * 1e3


class CudaGraph:
    """An instantiated graph."""

    def __init__(self, device: CudaDevice, executable: Any, nodes: int) -> None:
        self.nodes = nodes
        self._device = device
        self._executable = executable

    def launch(self, stream: Stream) -> None:
        if self._executable is None:
            raise BackendError("a graph was launched after it was freed")
        own = cast("CudaStream", stream)
        own.ready()
        self._device.errors.check(
            self._device.libraries.bindings.cuGraphLaunch(self._executable, own.handle), "launch a graph"
        )

    def free(self) -> None:
        """Destroys the graph. A second call does nothing."""
        if self._executable is not None:
            self._device.activate()
            executable, self._executable = self._executable, None
            self._device.errors.check(self._device.libraries.bindings.cuGraphExecDestroy(executable), "free a graph")
