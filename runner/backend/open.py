"""A backend by its name."""

from __future__ import annotations

from runner.backend.base import Backend
from runner.plan.model import BackendName


def open_backend(name: BackendName | str) -> Backend:
    """``cuda`` or ``host``; neither is imported before it is asked for. Raises ``BackendError``."""
    if name == "cuda":
        from runner.backend.cuda import CudaBackend

        return CudaBackend()
    if name == "host":
        from runner.backend.host import HostBackend

        return HostBackend()
    raise ValueError(f"backend={name}: known are cuda and host")
