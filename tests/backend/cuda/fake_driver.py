"""A driver made of Python: it records every call in order, and fails on request with the driver's codes."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from runner.backend.cuda.libraries import Libraries


class CUresult(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_NOT_FOUND = 500
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701
    CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704
    CUDA_ERROR_LAUNCH_FAILED = 719
    CUDA_ERROR_NOT_SUPPORTED = 801
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901
    CUDA_ERROR_MPS_RPC_FAILURE = 806


TEXT = {
    CUresult.CUDA_SUCCESS: "no error",
    CUresult.CUDA_ERROR_INVALID_VALUE: "invalid argument",
    CUresult.CUDA_ERROR_OUT_OF_MEMORY: "out of memory",
    CUresult.CUDA_ERROR_NO_DEVICE: "no CUDA-capable device is detected",
    CUresult.CUDA_ERROR_NOT_FOUND: "named symbol not found",
    CUresult.CUDA_ERROR_ILLEGAL_ADDRESS: "an illegal memory access was encountered",
    CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: "too many resources requested for launch",
    CUresult.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED: "peer access is already enabled",
    CUresult.CUDA_ERROR_LAUNCH_FAILED: "unspecified launch failure",
    CUresult.CUDA_ERROR_NOT_SUPPORTED: "operation not supported",
    CUresult.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED: "operation failed due to a previous error during capture",
    CUresult.CUDA_ERROR_MPS_RPC_FAILURE: "MPS client failed to connect",
}


class PyCudaError(Exception):
    """As ``pycuda.driver.Error``: a text, and no code."""


class Driver:
    """Both libraries' view of one pretended machine."""

    def __init__(self, devices: int = 2) -> None:
        self.devices = devices
        self.calls: list[tuple[Any, ...]] = []
        self.fail: dict[str, CUresult] = {}
        """Routine → the code it fails with."""
        self.free = 1 << 30
        self.peers = True
        self.stack: list[int] = []
        self.compute = (9, 0)
        self.names = {"scale"}
        self.captured: list[str] = []
        """Nodes that the next one of a capture follows."""
        self.word: npt.NDArray[np.uint32] | None = None
        self._next = 0x7000_0000

    def call(self, routine: str, *details: Any) -> None:
        self.calls.append((routine, *details))
        if routine in self.fail:
            raise PyCudaError(f"{routine} failed: {TEXT[self.fail[routine]]}")

    def code(self, routine: str, *details: Any) -> CUresult:
        self.calls.append((routine, *details))
        return self.fail.get(routine, CUresult.CUDA_SUCCESS)

    def names_called(self) -> list[str]:
        return [call[0] for call in self.calls]

    def address(self) -> int:
        self._next += 0x100_0000
        return self._next


class FakeContext:
    driver: Driver

    def __init__(self, ordinal: int) -> None:
        self.handle = 0xC0 + ordinal

    def push(self) -> None:
        self.driver.stack.append(self.handle)

    @classmethod
    def pop(cls) -> None:
        cls.driver.stack.pop()

    def detach(self) -> None:
        self.driver.call("detach", self.handle)

    @classmethod
    def synchronize(cls) -> None:
        cls.driver.call("cuCtxSynchronize", cls.driver.stack[-1])


def _pycuda(driver: Driver) -> SimpleNamespace:
    class Context(FakeContext):
        pass

    Context.driver = driver

    class Device:
        def __init__(self, ordinal: int) -> None:
            self.ordinal = ordinal

        @staticmethod
        def count() -> int:
            return driver.devices

        def name(self) -> str:
            return "NVIDIA Fake"

        def compute_capability(self) -> tuple[int, int]:
            return driver.compute

        def total_memory(self) -> int:
            return 1 << 34

        def retain_primary_context(self) -> Context:
            return Context(self.ordinal)

        def can_access_peer(self, other: Device) -> bool:
            return driver.peers

    class Stream:
        def __init__(self, flags: int) -> None:
            driver.call("cuStreamCreate", flags)
            self.handle = driver.address()

        def synchronize(self) -> None:
            driver.call("cuStreamSynchronize", self.handle)

        def wait_for_event(self, event: Event) -> None:
            driver.call("cuStreamWaitEvent", self.handle)

    class Event:
        def record(self, stream: Stream) -> None:
            driver.call("cuEventRecord", stream.handle)

        def synchronize(self) -> None:
            driver.call("cuEventSynchronize")

        def query(self) -> bool:
            driver.call("cuEventQuery")
            return True

        def time_since(self, other: Event) -> float:
            return 0.25

    class Allocation:
        def __init__(self, nbytes: int) -> None:
            driver.call("cuMemAlloc", nbytes)
            if nbytes > driver.free:
                raise PyCudaError("cuMemAlloc failed: out of memory")
            self.pointer = driver.address()

        def __int__(self) -> int:
            return self.pointer

        def free(self) -> None:
            driver.call("cuMemFree", self.pointer)

    class Function:
        def get_attribute(self, code: str) -> int:
            return {"SHARED_SIZE_BYTES": 1024, "MAX_THREADS_PER_BLOCK": 256}[code]

        def set_attribute(self, code: str, value: int) -> None:
            driver.call("cuFuncSetAttribute", code, value)

        def _launch_kernel(self, *details: Any) -> None:
            if min(details[0]) < 0:
                raise OverflowError("can't convert negative value to unsigned int")
            driver.call("cuLaunchKernel", *details[:4])

    class Module:
        def get_function(self, name: str) -> Function:
            driver.call("cuModuleGetFunction", name)
            if name not in driver.names:
                raise PyCudaError("cuModuleGetFunction failed: named symbol not found")
            return Function()

    def module_from_file(path: str) -> Module:
        driver.call("cuModuleLoad", path)
        return Module()

    class HostAllocation:
        """What PyCUDA's page-locked arrays have as their base."""

        def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
            self._memory = np.full(shape, 7, dtype=dtype)
            self.__array_interface__ = self._memory.__array_interface__

        def get_device_pointer(self) -> int:
            return 0xD0

    def pagelocked_empty(shape: tuple[int, ...], dtype: Any, mem_flags: int) -> npt.NDArray[Any]:
        driver.call("cuMemHostAlloc", int(np.prod(shape)), mem_flags)
        block = np.asarray(HostAllocation(shape, dtype))
        if shape == (4,):
            driver.word = block.view(np.uint32)
        return block

    def copied(routine: str) -> Any:
        return lambda *details: driver.call(routine, *details)

    names = ("SHARED_SIZE_BYTES", "MAX_THREADS_PER_BLOCK", "MAX_DYNAMIC_SHARED_SIZE_BYTES")
    return SimpleNamespace(
        Error=PyCudaError,
        Context=Context,
        Device=Device,
        Stream=Stream,
        Event=Event,
        function_attribute=SimpleNamespace(**{name: name for name in names}),
        host_alloc_flags=SimpleNamespace(PORTABLE=1, DEVICEMAP=2),
        mem_alloc=Allocation,
        mem_get_info=lambda: (driver.free, 1 << 34),
        module_from_file=module_from_file,
        pagelocked_empty=pagelocked_empty,
        memcpy_htod_async=lambda address, source, stream: driver.call(
            "cuMemcpyHtoDAsync", address, bytes(source), stream.handle
        ),
        memcpy_dtoh_async=lambda target, address, stream: driver.call(
            "cuMemcpyDtoHAsync", target.nbytes, address, stream.handle
        ),
        memcpy_dtod_async=lambda to, origin, n, stream: driver.call("cuMemcpyDtoDAsync", to, origin, n),
        memset_d8_async=lambda address, byte, n, stream: driver.call("cuMemsetD8Async", address, byte, n),
        start_profiler=copied("cuProfilerStart"),
        stop_profiler=copied("cuProfilerStop"),
    )


def _bindings(driver: Driver) -> SimpleNamespace:
    def simple(routine: str, *values: Any) -> Any:
        return lambda *details: (driver.code(routine, *details), *values)

    attributes = {
        "MULTIPROCESSOR_COUNT": 132,
        "L2_CACHE_SIZE": 60 << 20,
        "ASYNC_ENGINE_COUNT": 3,
        "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232448,
    }
    nodes: Sequence[Any] = ()

    def pool_allocate(nbytes: int, stream: int) -> tuple[Any, ...]:
        code = driver.code("cuMemAllocAsync", nbytes, stream)
        return (CUresult.CUDA_ERROR_OUT_OF_MEMORY, 0) if nbytes > driver.free else (code, driver.address())

    return SimpleNamespace(
        CUresult=CUresult,
        cuGetErrorString=lambda code: (CUresult.CUDA_SUCCESS, TEXT[code].encode()),
        CUdevice_attribute=SimpleNamespace(**{f"CU_DEVICE_ATTRIBUTE_{name}": name for name in attributes}),
        cuDeviceGetAttribute=lambda name, device: (CUresult.CUDA_SUCCESS, attributes[name]),
        cuDeviceGet=lambda ordinal: (CUresult.CUDA_SUCCESS, ordinal),
        cuDeviceGetUuid=lambda device: (CUresult.CUDA_SUCCESS, SimpleNamespace(bytes=bytes(range(16)))),
        cuDriverGetVersion=lambda: (CUresult.CUDA_SUCCESS, 13000),
        cuCtxPopCurrent=lambda: (CUresult.CUDA_SUCCESS, driver.stack.pop()),
        cuCtxGetStreamPriorityRange=lambda: (CUresult.CUDA_SUCCESS, 0, -5),
        CUstreamAttrValue=SimpleNamespace,
        CUlaunchAttributeID=SimpleNamespace(CU_LAUNCH_ATTRIBUTE_PRIORITY="priority"),
        cuStreamSetAttribute=lambda stream, name, value: (driver.code("cuStreamSetAttribute", name, value.priority),),
        cuStreamGetPriority=lambda stream: (
            CUresult.CUDA_SUCCESS,
            next(call[2] for call in reversed(driver.calls) if call[0] == "cuStreamSetAttribute"),
        ),
        CUstreamWaitValue_flags=SimpleNamespace(CU_STREAM_WAIT_VALUE_GEQ=0),
        cuStreamWaitValue32=simple("cuStreamWaitValue32"),
        CUstreamCaptureMode=SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED=2),
        cuStreamBeginCapture=simple("cuStreamBeginCapture"),
        cuStreamEndCapture=simple("cuStreamEndCapture", "graph"),
        cuStreamGetCaptureInfo=lambda stream: (
            driver.code("cuStreamGetCaptureInfo", stream),
            *("active", 1, "graph", driver.captured, [None] * len(driver.captured), len(driver.captured)),
        ),
        cuGraphNodeGetType=lambda node: (driver.code("cuGraphNodeGetType", node), node.partition(" ")[0]),
        CUgraphNodeType=SimpleNamespace(CU_GRAPH_NODE_TYPE_KERNEL="kernel"),
        CUgraphEdgeData=SimpleNamespace,
        CUstreamUpdateCaptureDependencies_flags=SimpleNamespace(CU_STREAM_SET_CAPTURE_DEPENDENCIES=1),
        cuStreamUpdateCaptureDependencies=simple("cuStreamUpdateCaptureDependencies"),
        cuGraphGetNodes=simple("cuGraphGetNodes", nodes, 4),
        cuGraphInstantiate=simple("cuGraphInstantiate", "executable"),
        cuGraphDestroy=simple("cuGraphDestroy"),
        cuGraphLaunch=simple("cuGraphLaunch"),
        cuGraphExecDestroy=simple("cuGraphExecDestroy"),
        cuDeviceGetDefaultMemPool=simple("cuDeviceGetDefaultMemPool", "pool"),
        CUmemPool_attribute=SimpleNamespace(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD="threshold"),
        cuuint64_t=int,
        cuMemPoolSetAttribute=simple("cuMemPoolSetAttribute"),
        cuMemAllocAsync=pool_allocate,
        cuMemFreeAsync=simple("cuMemFreeAsync"),
        cuMemPoolTrimTo=simple("cuMemPoolTrimTo"),
        cuMemcpyPeerAsync=simple("cuMemcpyPeerAsync"),
        cuCtxEnablePeerAccess=simple("cuCtxEnablePeerAccess"),
    )


def libraries(driver: Driver) -> Libraries:
    """Both libraries on the pretended machine."""
    return Libraries(_pycuda(driver), _bindings(driver))
