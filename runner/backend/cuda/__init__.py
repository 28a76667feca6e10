"""The CUDA backend: PyCUDA, with cuda-bindings for graphs, memory pools and holding a stream."""

from runner.backend.cuda.backend import CudaBackend

__all__ = ["CudaBackend"]
