"""Devices: information, memory, contexts, page-locked memory, peers and errors, on a pretended driver."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import numpy as np
import pytest

from runner.backend.base import BackendError, DeviceFault, LaunchError, OutOfMemory, Unsupported
from runner.backend.cuda.backend import CudaBackend
from runner.backend.cuda.device import CudaDevice
from runner.backend.cuda.info import architecture
from tests.backend.cuda.fake_driver import CUresult, Driver


@pytest.mark.parametrize(
    ("capability", "arch"),
    [((8, 0), "sm_80"), ((8, 9), "sm_89"), ((9, 0), "sm_90a"), ((10, 3), "sm_103a"), ((12, 0), "sm_120a")],
)
def test_architecture_has_the_a_suffix_from_9_0_on(capability: tuple[int, int], arch: str) -> None:
    assert architecture(*capability) == arch


def test_info_is_what_the_driver_says(device: CudaDevice) -> None:
    info = device.info
    assert (info.name, info.arch, info.sms, info.l2_bytes) == ("NVIDIA Fake", "sm_90a", 132, 60 << 20)
    assert info.uuid == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert (info.copy_engines, info.max_shared_bytes, info.cuda) == (3, 232448, "13.0")


def test_an_ordinal_that_is_not_there_names_those_that_are(backend: CudaBackend) -> None:
    with pytest.raises(BackendError, match=r"no device 2; this process sees 2 \(0 to 1\)"):
        backend.open(2)


def test_only_one_context_is_current(backend: CudaBackend, driver: Driver) -> None:
    first, second = backend.open(0), backend.open(1)
    first.synchronize()
    second.synchronize()
    assert driver.stack == [0xC1]
    assert [call[1] for call in driver.calls if call[0] == "cuCtxSynchronize"] == [0xC0, 0xC1]


def test_closing_gives_every_context_back(backend: CudaBackend, driver: Driver) -> None:
    first, second = backend.open(0), backend.open(1)
    buffer = first.allocate(64)
    second.stream()
    backend.close()
    assert driver.stack == []
    assert [call[1] for call in driver.calls if call[0] == "detach"] == [0xC0, 0xC1]
    assert driver.names_called().count("cuMemFree") == 1
    with pytest.raises(BackendError, match="used after it was freed"):
        _ = buffer.address
    with pytest.raises(BackendError, match="device 0 was used after it was closed"):
        first.allocate(1)
    first.close()


def test_another_thread_is_refused(device: CudaDevice) -> None:
    seen: list[BaseException] = []

    def work() -> None:
        try:
            device.synchronize()
        except BackendError as error:
            seen.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert "outside the thread that opened it" in str(seen[0])


def test_out_of_memory_names_what_was_asked_and_what_is_free(device: CudaDevice) -> None:
    with pytest.raises(OutOfMemory, match=r"no room for 2147483648 bytes \(2.00 GiB\): 1073741824 bytes are free"):
        device.allocate(2 << 30)


def test_out_of_memory_asks_the_pool_to_give_back_first(device: CudaDevice, driver: Driver) -> None:
    stream = device.stream()
    stream.free(stream.allocate(64))
    driver.calls.clear()
    with pytest.raises(OutOfMemory):
        device.allocate(2 << 30)
    assert driver.names_called() == ["cuMemAlloc", "cuCtxSynchronize", "cuMemPoolTrimTo", "cuMemAlloc"]


def test_a_buffer_is_freed_once(device: CudaDevice, driver: Driver) -> None:
    buffer = device.allocate(64)
    buffer.free()
    buffer.free()
    assert driver.names_called().count("cuMemFree") == 1


def test_an_empty_buffer_has_an_address(device: CudaDevice, driver: Driver) -> None:
    assert device.allocate(0).address
    assert ("cuMemAlloc", 1) in driver.calls


def test_page_locked_memory_is_zeroed_typed_and_kept_until_a_sweep(device: CudaDevice, driver: Driver) -> None:
    array = device.page_locked((2, 3), np.float32)
    assert array.shape == (2, 3) and array.dtype == np.float32 and not array.any()
    assert ("cuMemHostAlloc", 24, 3) in driver.calls
    alive = device._deferred._alive
    view = array[1:]
    del array
    gc.collect()
    device.synchronize()
    assert len(alive) == 1, "a view still needs the memory"
    del view
    gc.collect()
    assert len(alive) == 1, "released only at a moment that may wait for the device"
    device.synchronize()
    assert not alive


def test_peer_access_is_asked_for_once(backend: CudaBackend, driver: Driver) -> None:
    first, second = backend.open(0), backend.open(1)
    assert first.can_access_peer(second)
    first.enable_peer_access(second)
    first.enable_peer_access(second)
    assert [call for call in driver.calls if call[0] == "cuCtxEnablePeerAccess"] == [("cuCtxEnablePeerAccess", 0xC1, 0)]


def test_peer_access_enabled_by_someone_else_is_fine(backend: CudaBackend, driver: Driver) -> None:
    first, second = backend.open(0), backend.open(1)
    driver.fail["cuCtxEnablePeerAccess"] = CUresult.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
    first.enable_peer_access(second)


def test_no_peer_access_is_unsupported(backend: CudaBackend, driver: Driver) -> None:
    first, second = backend.open(0), backend.open(1)
    driver.fail["cuCtxEnablePeerAccess"] = CUresult.CUDA_ERROR_NOT_SUPPORTED
    with pytest.raises(Unsupported, match="let device 0 address the memory of device 1"):
        first.enable_peer_access(second)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (CUresult.CUDA_ERROR_ILLEGAL_ADDRESS, DeviceFault),
        (CUresult.CUDA_ERROR_LAUNCH_FAILED, DeviceFault),
        (CUresult.CUDA_ERROR_INVALID_VALUE, LaunchError),
        (CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, LaunchError),
        (CUresult.CUDA_ERROR_OUT_OF_MEMORY, OutOfMemory),
        (CUresult.CUDA_ERROR_NOT_SUPPORTED, Unsupported),
        (CUresult.CUDA_ERROR_MPS_RPC_FAILURE, BackendError),
    ],
)
def test_a_code_means_the_same_from_both_libraries(
    device: CudaDevice, driver: Driver, code: CUresult, kind: type[BackendError]
) -> None:
    driver.fail.update({"cuCtxSynchronize": code, "cuStreamBeginCapture": code})
    with pytest.raises(BackendError, match=code.name) as from_pycuda:
        device.synchronize()
    stream = device.stream()
    with pytest.raises(BackendError, match=code.name) as from_bindings:
        stream.begin_capture()
    assert type(from_pycuda.value) is kind
    assert type(from_bindings.value) is kind
    device.errors.fault = None
    driver.fail.clear()


def test_after_a_fault_closing_frees_nothing_one_by_one(backend: CudaBackend, driver: Driver) -> None:
    device = backend.open(0)
    device.allocate(64)
    device.stream()
    driver.fail["cuCtxSynchronize"] = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(DeviceFault, match="outside its buffers"):
        device.synchronize()
    driver.calls.clear()
    device.close()
    assert driver.names_called() == ["detach"]


def test_a_missing_kernel_names_those_that_exist(device: CudaDevice, tmp_path: Path) -> None:
    program = tmp_path / "k.cubin"
    program.with_suffix(".json").write_text('{"functions": ["scale", "shift"]}')
    with pytest.raises(LaunchError, match=r"find the kernel scael in k\.cubin.*it has: scale, shift"):
        device.load(program).function("scael")
