"""The ``host`` backend: kernels compiled for the CPU, on virtual devices."""

from runner.backend.host.backend import HostBackend

__all__ = ["HostBackend"]
