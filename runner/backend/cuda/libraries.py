"""The two CUDA libraries, imported when needed: PyCUDA drives the device, cuda-bindings adds the rest."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from runner.backend.base import BackendError

INSTALL = "pip install '.[cuda]'"
ENVIRONMENT = {
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    "CUDA_MODULE_LOADING": "EAGER",
}
"""Set before the driver starts, unless the user set them. Devices are numbered as by ``nvidia-smi``. Kernels are
loaded with their module, not at the first launch, which would wait for the device, and forever while a stream is
held."""


@dataclass(frozen=True, eq=False)
class Libraries:
    """PyCUDA's ``pycuda.driver`` and ``cuda.bindings.driver``; tests put their own objects here."""

    pycuda: Any
    bindings: Any


@lru_cache(maxsize=1)
def load() -> Libraries:
    """Imports both and starts the driver. Raises ``BackendError`` that says what to install."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    pycuda = _import("pycuda.driver", "pycuda")
    bindings = _import("cuda.bindings.driver", "cuda-bindings")
    try:
        pycuda.init()
    except pycuda.Error as error:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        seen = f" (CUDA_VISIBLE_DEVICES={visible!r})" if visible is not None else ""
        raise BackendError(f"the NVIDIA driver cannot start{seen}: {error}") from error
    return Libraries(pycuda, bindings)


def _import(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise BackendError(f"{package} is not installed ({error}): {INSTALL}") from error
    except ImportError as error:  # installed, but its shared libraries are not here
        raise BackendError(
            f"{package} cannot be loaded ({error}): is an NVIDIA driver installed? Without a GPU use gpu=host"
        ) from error
