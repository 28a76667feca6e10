"""What the tests of the host backend share: compiling a test source and running one of its kernels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from runner.backend.base import Argument, Buffer, Device, Dim3, Module
from runner.build.api import build_one
from runner.build.model import BuildRequest
from runner.build.sources import entry_points
from runner.plan.model import Unit

KERNELS = Path(__file__).parent / "kernels"

Array = npt.NDArray[Any]


def compiled(name: str, unit: Unit = "main", sanitize: bool = False, defines: tuple[tuple[str, str], ...] = ()) -> Path:
    """The program of ``kernels/<name>.cu``, from the session's compile cache."""
    source = KERNELS / f"{name}.cu"
    request = BuildRequest(
        source=str(source),
        backend="host",
        arch="",
        unit=unit,
        defines=defines,
        functions=entry_points(source),
        sanitize=sanitize,
    )
    return build_one(request).path


def upload(device: Device, array: Array) -> Buffer:
    buffer = device.allocate(array.nbytes)
    stream = device.stream()
    stream.write(buffer, array)
    stream.synchronize()
    stream.close()
    return buffer


def download(device: Device, buffer: Buffer, like: Array) -> Array:
    stream = device.stream()
    result = np.empty_like(like)
    stream.read(result, buffer)
    stream.close()
    return result


def call(
    device: Device, module: Module, name: str, grid: Dim3, block: Dim3, arguments: Sequence[Any], shared_bytes: int = 0
) -> list[Array]:
    """Runs a kernel on copies of the arrays among ``arguments``; returns all of them as they are afterwards."""
    arrays = [argument for argument in arguments if isinstance(argument, np.ndarray)]
    buffers = [upload(device, array) for array in arrays]
    waiting = iter(buffers)
    passed: list[Argument] = [next(waiting) if isinstance(one, np.ndarray) else one for one in arguments]
    stream = device.stream()
    try:
        stream.launch(module.function(name), grid, block, shared_bytes, passed)
        stream.synchronize()
        return [download(device, buffer, array) for buffer, array in zip(buffers, arrays, strict=True)]
    finally:
        stream.close()
        for buffer in buffers:
            buffer.free()
