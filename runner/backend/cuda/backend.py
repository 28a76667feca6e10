"""The entry to NVIDIA GPUs."""

from __future__ import annotations

import atexit

from runner.backend.base import BackendError
from runner.backend.cuda import libraries as cuda_libraries
from runner.backend.cuda.current import current_of
from runner.backend.cuda.device import CudaDevice
from runner.backend.cuda.errors import Errors
from runner.backend.cuda.libraries import Libraries
from runner.plan.model import BackendName
from runner.result.model import TraceEvent


class CudaBackend:
    """Opens devices through PyCUDA. Everything stays in the thread that created the backend."""

    name: BackendName = "cuda"

    def __init__(self, libraries: Libraries | None = None) -> None:
        """Raises ``BackendError`` when the packages or the driver are missing."""
        self._libraries = libraries or cuda_libraries.load()
        self._errors = Errors(self._libraries)
        self._current = current_of(self._libraries)
        self._devices: list[CudaDevice] = []
        self.trace: list[TraceEvent] | None = None
        # A context that is still current when the interpreter ends makes PyCUDA abort the process.
        atexit.register(self.close)

    def device_count(self) -> int:
        with self._errors.at("count devices"):
            return int(self._libraries.pycuda.Device.count())

    def open(self, ordinal: int) -> CudaDevice:
        count = self.device_count()
        if not 0 <= ordinal < count:
            known = f"0 to {count - 1}" if count else "none"
            raise BackendError(f"devices: there is no device {ordinal}; this process sees {count} ({known})")
        device = CudaDevice(self._libraries, self._errors, self._current, ordinal)
        self._devices = [one for one in self._devices if one.is_open]
        self._devices.append(device)
        return device

    def start_profiler(self) -> None:
        """Begins the region that ``nsys --capture-range=cudaProfilerApi`` records."""
        with self._errors.at("start the profiler"):
            self._libraries.pycuda.start_profiler()

    def stop_profiler(self) -> None:
        with self._errors.at("stop the profiler"):
            self._libraries.pycuda.stop_profiler()

    def close(self) -> None:
        """Closes every open device."""
        for device in self._devices:
            device.close()
        self._devices.clear()
        atexit.unregister(self.close)
