"""Loaded programs and their kernels."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from runner.backend.base import Argument, Dim3, LaunchError
from runner.backend.cuda.memory import CudaBuffer
from runner.plan.limits import MAX_GRID

if TYPE_CHECKING:
    from runner.backend.cuda.device import CudaDevice

DEFAULT_SHARED = 48 * 1024
"""Static and dynamic shared memory of a block without asking for more, bytes."""


class CudaModule:
    """A cubin loaded on one device."""

    def __init__(self, device: CudaDevice, program: Path, native: Any) -> None:
        self._device = device
        self.program = program
        self._native = native
        self._functions: dict[str, CudaFunction] = {}

    def function(self, name: str) -> CudaFunction:
        if name not in self._functions:
            self._device.activate()
            try:
                native = self._native.get_function(name)
            except self._device.libraries.pycuda.Error as error:
                failure = self._device.errors.translate(error, f"find the kernel {name} in {self.program.name}")
                if isinstance(failure, LaunchError):
                    failure = LaunchError(f"{failure}; it has: {', '.join(self._names()) or 'unknown'}")
                raise failure from error
            self._functions[name] = CudaFunction(self, self._device, name, native)
        return self._functions[name]

    def _names(self) -> list[str]:
        """Kernels of the program, from the record the build room keeps beside it."""
        try:
            return list(json.loads(self.program.with_suffix(".json").read_text())["functions"])
        except (OSError, ValueError, KeyError):
            return []


class CudaFunction:
    """One kernel. Launching the same tuple of arguments again costs no packing."""

    def __init__(self, module: CudaModule, device: CudaDevice, name: str, native: Any) -> None:
        self.name = name
        self._module = module  # the kernel lives as long as its module
        self._device = device
        self._native = native
        self._static_shared = int(native.get_attribute(device.libraries.pycuda.function_attribute.SHARED_SIZE_BYTES))
        self._shared_allowed = max(0, DEFAULT_SHARED - self._static_shared)
        self._arguments: Sequence[Argument] | None = None
        self._frees = -1
        self._packed = b""

    def enqueue(self, stream: Any, grid: Dim3, block: Dim3, shared_bytes: int, arguments: Sequence[Argument]) -> None:
        """Launches on a PyCUDA stream of the current context. Raises ``LaunchError``, ``DeviceFault``."""
        # A tuple cannot change, and as long as no buffer was freed its addresses still hold.
        if arguments is not self._arguments or self._frees != self._device.frees:
            self._pack(arguments)
        try:
            if shared_bytes > self._shared_allowed:
                self._allow_shared(shared_bytes)
            # What prepared_async_call ends in, without its deprecated cuFuncSetBlockShape before each launch.
            self._native._launch_kernel(grid, block, self._packed, shared_bytes, stream)
        except (self._device.libraries.pycuda.Error, OverflowError) as error:
            raise self._explain(error, grid, block, shared_bytes) from error

    def _pack(self, arguments: Sequence[Argument]) -> None:
        codes = ["@"]
        values: list[Any] = []
        for argument in arguments:
            if isinstance(argument, np.generic):
                codes.append(argument.dtype.char)
                values.append(argument)
            else:
                codes.append("P")
                values.append(cast(CudaBuffer, argument).address)
        try:
            self._packed = struct.pack("".join(codes), *values)
        except struct.error as error:
            raise LaunchError(f"cannot pass these arguments to {self.name}: {error}") from error
        self._arguments = arguments if isinstance(arguments, tuple) else None
        self._frees = self._device.frees

    def _allow_shared(self, shared_bytes: int) -> None:
        attribute = self._device.libraries.pycuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
        self._native.set_attribute(attribute, shared_bytes)
        self._shared_allowed = shared_bytes

    def _explain(self, error: Exception, grid: Dim3, block: Dim3, shared_bytes: int) -> Exception:
        """The backend's error for a launch that failed, with what was asked and what is possible."""
        doing = f"launch {self.name} with grid {grid}, block {block}, dynamic shared memory {shared_bytes} bytes"
        if isinstance(error, OverflowError):
            return LaunchError(f"cannot {doing}: sizes must be positive and below 2^32")
        failure = self._device.errors.translate(error, doing)
        if not isinstance(failure, LaunchError):
            return failure
        attributes = self._device.libraries.pycuda.function_attribute
        threads = self._native.get_attribute(attributes.MAX_THREADS_PER_BLOCK)
        shared = max(0, self._device.info.max_shared_bytes - self._static_shared)
        return LaunchError(
            f"{failure}; this kernel takes up to {threads} threads a block, {shared} bytes of dynamic shared "
            f"memory and a grid of {MAX_GRID}"
        )
