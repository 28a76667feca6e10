"""CUDA's error codes as the backend's exceptions.

``cuda-bindings`` returns codes. PyCUDA raises ``<routine> failed: <the driver's text for the code>`` without
the code, so the code is looked up by that text in the driver's own table.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from runner.backend.base import BackendError, DeviceFault, LaunchError, OutOfMemory, Unsupported
from runner.backend.cuda.libraries import Libraries

FAULTS = {
    "ILLEGAL_ADDRESS": "a kernel read or wrote outside its buffers; sanitize=true finds the line",
    "MISALIGNED_ADDRESS": "a kernel used an address that is not a multiple of the access size",
    "LAUNCH_FAILED": "a kernel failed while running; sanitize=true may find the line",
    "LAUNCH_TIMEOUT": "a kernel ran longer than the display's watchdog allows",
    "ASSERT": "an assert in a kernel failed",
    "ILLEGAL_INSTRUCTION": "a kernel ran an instruction this GPU does not have; check gpu.arch",
    "INVALID_ADDRESS_SPACE": "a kernel used an address of the wrong kind of memory",
    "INVALID_PC": "a kernel jumped outside its code",
    "HARDWARE_STACK_ERROR": "a kernel overran its stack",
    "TENSOR_MEMORY_LEAK": "a kernel ended without freeing its tensor memory",
    "ECC_UNCORRECTABLE": "the GPU's memory has an uncorrectable error",
    "NVLINK_UNCORRECTABLE": "NVLink had an uncorrectable error",
    "CONTAINED": "the GPU contained a memory error",
    "CONTEXT_IS_DESTROYED": "the device's context is gone",
    "EXTERNAL_DEVICE": "another device failed",
    "UNKNOWN": "the driver does not know what failed",
}
"""The context is lost: every later call fails too."""

REFUSED = {
    "INVALID_VALUE": "a value is out of range",
    "LAUNCH_OUT_OF_RESOURCES": "the block needs more registers or shared memory than there are",
    "INVALID_CLUSTER_SIZE": "the cluster does not fit",
    "COOPERATIVE_LAUNCH_TOO_LARGE": "the grid does not fit on the device at once",
    "NO_BINARY_FOR_GPU": "the program was compiled for another architecture; check gpu.arch",
    "INVALID_IMAGE": "the program is not a CUDA binary",
    "NOT_FOUND": "the program has no such name",
    "STREAM_CAPTURE_UNSUPPORTED": "this cannot be captured into a graph",
    "STREAM_CAPTURE_INVALIDATED": "an earlier call broke the capture",
    "STREAM_CAPTURE_UNJOINED": "a captured stream was forked and not joined: wait for its event first",
    "STREAM_CAPTURE_ISOLATION": "the capture depends on work outside it",
    "STREAM_CAPTURE_IMPLICIT": "the capture would wait for the default stream",
}

UNSUPPORTED = frozenset(
    {"NOT_SUPPORTED", "PEER_ACCESS_UNSUPPORTED", "TOO_MANY_PEERS", "UNSUPPORTED_LIMIT", "CDP_NOT_SUPPORTED"}
)

_PREFIX = "CUDA_ERROR_"


class Errors:
    """Translates the errors of both libraries."""

    def __init__(self, libraries: Libraries) -> None:
        self._pycuda = libraries.pycuda
        self._bindings = libraries.bindings
        self._by_text: dict[str, str] = {}
        self.fault: DeviceFault | None = None
        """The first device fault; after it nothing on the device can be freed or waited for."""

    @contextmanager
    def at(self, doing: str) -> Iterator[None]:
        """Translates PyCUDA's exceptions; ``doing`` completes "cannot …"."""
        try:
            yield
        except self._pycuda.Error as error:
            raise self.translate(error, doing) from error

    def check(self, result: tuple[Any, ...], doing: str) -> Any:
        """The value of a ``cuda-bindings`` call, or the error its code means."""
        if int(result[0]) != 0:
            raise self._error(self._bindings.CUresult(int(result[0])).name, doing)
        return result[1] if len(result) > 1 else None

    def translate(self, error: Exception, doing: str) -> BackendError:
        """The backend's exception for one of PyCUDA's."""
        text = str(error).partition(" failed: ")[2].partition(" - ")[0]
        name = self._table().get(text)
        if name is None:
            return BackendError(f"cannot {doing}: {error}")
        return self._error(name, doing)

    def _table(self) -> dict[str, str]:
        """The driver's text of every error code."""
        if not self._by_text:
            for code in self._bindings.CUresult:
                status, text = self._bindings.cuGetErrorString(code)
                if int(status) == 0 and text:
                    self._by_text[text.decode()] = code.name
        return self._by_text

    def _error(self, code: str, doing: str) -> BackendError:
        short = code.removeprefix(_PREFIX)
        if short in FAULTS:
            fault = DeviceFault(f"device fault, seen while trying to {doing}: {FAULTS[short]} ({code})")
            self.fault = self.fault or fault
            return fault
        if short in REFUSED:
            return LaunchError(f"cannot {doing}: {REFUSED[short]} ({code})")
        if short == "OUT_OF_MEMORY":
            return OutOfMemory(f"cannot {doing}: not enough device memory ({code})")
        if short in UNSUPPORTED:
            return Unsupported(f"cannot {doing}: this device or driver does not support it ({code})")
        return BackendError(f"cannot {doing}: {code}")
