"""Streams: launches, copies, holding, pools and graphs, on a pretended driver."""

from __future__ import annotations

import struct
import time
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from runner.backend.base import BackendError, LaunchError, OutOfMemory
from runner.backend.cuda import holding, programmatic
from runner.backend.cuda.backend import CudaBackend
from runner.backend.cuda.device import CudaDevice
from runner.backend.cuda.module import CudaFunction
from tests.backend.cuda.fake_driver import CUresult, Driver


@pytest.fixture
def scale(device: CudaDevice) -> CudaFunction:
    return device.load(Path("/programs/k.cubin")).function("scale")


def launches(driver: Driver) -> list[tuple[object, ...]]:
    return [call[1:] for call in driver.calls if call[0] == "cuLaunchKernel"]


def test_arguments_are_packed_as_c_lays_them_out(device: CudaDevice, driver: Driver, scale: CudaFunction) -> None:
    stream, buffer = device.stream(), device.allocate(64)
    arguments = (buffer, np.float32(2.5), np.int64(-3), np.int32(7), np.uint64(2**63))
    stream.launch(scale, (2, 1, 1), (128, 1, 1), 0, arguments)
    packed = struct.pack("@PfqiQ", buffer.address, 2.5, -3, 7, 2**63)
    assert launches(driver) == [((2, 1, 1), (128, 1, 1), packed, 0)]


def test_the_same_tuple_is_packed_once_until_a_buffer_is_freed(device: CudaDevice, scale: CudaFunction) -> None:
    stream, buffer, other = device.stream(), device.allocate(64), device.allocate(64)
    arguments = (buffer, np.int64(1))
    stream.launch(scale, (1, 1, 1), (1, 1, 1), 0, arguments)
    first = scale._packed
    stream.launch(scale, (1, 1, 1), (1, 1, 1), 0, arguments)
    assert scale._packed is first
    other.free()
    stream.launch(scale, (1, 1, 1), (1, 1, 1), 0, arguments)
    buffer.free()
    with pytest.raises(BackendError, match="used after it was freed"):
        stream.launch(scale, (1, 1, 1), (1, 1, 1), 0, arguments)


def test_a_list_of_arguments_may_change_between_launches(
    device: CudaDevice, driver: Driver, scale: CudaFunction
) -> None:
    stream, arguments = device.stream(), [np.int64(1)]
    stream.launch(scale, (1, 1, 1), (1, 1, 1), 0, arguments)
    arguments[0] = np.int64(2)
    stream.launch(scale, (1, 1, 1), (1, 1, 1), 0, arguments)
    assert [call[2] for call in launches(driver)] == [struct.pack("@q", 1), struct.pack("@q", 2)]


def test_large_shared_memory_is_asked_for_once(device: CudaDevice, driver: Driver, scale: CudaFunction) -> None:
    stream = device.stream()
    for shared in (47 * 1024, 100_000, 90_000):
        stream.launch(scale, (1, 1, 1), (1, 1, 1), shared, ())
    assert [call for call in driver.calls if call[0] == "cuFuncSetAttribute"] == [
        ("cuFuncSetAttribute", "MAX_DYNAMIC_SHARED_SIZE_BYTES", 100_000)
    ]


def test_a_refused_launch_says_what_was_asked_and_what_is_possible(
    device: CudaDevice, driver: Driver, scale: CudaFunction
) -> None:
    driver.fail["cuLaunchKernel"] = CUresult.CUDA_ERROR_INVALID_VALUE
    with pytest.raises(LaunchError, match=r"scale.*grid \(1, 1, 1\), block \(2048, 1, 1\).*256 threads.*231424 bytes"):
        device.stream().launch(scale, (1, 1, 1), (2048, 1, 1), 0, ())


def test_a_negative_grid_is_a_launch_error(device: CudaDevice, scale: CudaFunction) -> None:
    with pytest.raises(LaunchError, match="must be positive"):
        device.stream().launch(scale, (-1, 1, 1), (1, 1, 1), 0, ())


def test_priorities_count_up_from_zero_and_are_clamped(device: CudaDevice, driver: Driver) -> None:
    assert [device.stream(priority).priority for priority in (0, 2, 99)] == [0, 2, 5]
    assert [call[2] for call in driver.calls if call[0] == "cuStreamSetAttribute"] == [-2, -5]


def test_bytes_of_any_dtype_are_copied(device: CudaDevice, driver: Driver) -> None:
    stream, buffer = device.stream(), device.allocate(8)
    stream.write(buffer, np.array([1.0, 2.0], dtype=ml_dtypes.bfloat16), 4)
    target = np.zeros(4, dtype=ml_dtypes.bfloat16)
    stream.read(target, buffer)
    assert driver.calls[-2][:3] == ("cuMemcpyHtoDAsync", buffer.address + 4, b"\x80\x3f\x00\x40")
    assert driver.calls[-1][:3] == ("cuMemcpyDtoHAsync", 8, buffer.address)


def test_a_copy_past_the_end_is_refused(device: CudaDevice) -> None:
    stream, buffer = device.stream(), device.allocate(8)
    with pytest.raises(BackendError, match="12 bytes at offset 0 do not fit a buffer of 8 bytes"):
        stream.write(buffer, np.zeros(3, dtype=np.float32))
    with pytest.raises(BackendError, match="C-contiguous"):
        stream.read(np.zeros((2, 2), dtype=np.uint8).T, buffer)


def test_a_copy_between_devices_names_both_contexts(backend: CudaBackend, driver: Driver) -> None:
    first, second = backend.open(0), backend.open(1)
    here, there = first.allocate(64), second.allocate(64)
    stream = first.stream()
    stream.copy(there, here, 32)
    assert driver.calls[-1] == (
        "cuMemcpyPeerAsync", there.address, 0xC1, here.address, 0xC0, 32, stream.handle
    )  # fmt: skip
    other = first.allocate(64)
    stream.copy(other, here, 32)
    last: tuple[object, ...] = driver.calls[-1]
    assert last == ("cuMemcpyDtoDAsync", other.address, here.address, 32)


def test_time_between_events_is_in_microseconds(device: CudaDevice) -> None:
    stream, start, end = device.stream(), device.event(), device.event()
    stream.record(start)
    with pytest.raises(BackendError, match="two recorded events"):
        end.elapsed_us(start)
    stream.record(end)
    assert end.elapsed_us(start) == 250.0


def test_hold_waits_for_a_growing_word_and_release_writes_it(device: CudaDevice, driver: Driver) -> None:
    stream = device.stream()
    for expected in (1, 2):
        stream.hold()
        assert driver.calls[-1] == ("cuStreamWaitValue32", stream.handle, 0xD0, expected, 0)
        assert driver.word is not None and driver.word[0] == expected - 1
        stream.release()
        assert driver.word[0] == expected
    stream.release()


def test_what_would_wait_forever_is_refused_while_held(device: CudaDevice, driver: Driver) -> None:
    stream, buffer = device.stream(), device.allocate(8)
    stream.hold()
    for blocked in (
        stream.synchronize,
        device.synchronize,
        buffer.free,
        stream.begin_capture,
        lambda: device.allocate(8),
        lambda: device.load(Path("k.cubin")),
        lambda: device.page_locked((1,), np.uint8),
    ):
        with pytest.raises(BackendError, match="while a stream is held"):
            blocked()
    with pytest.raises(BackendError, match="already held"):
        stream.hold()
    stream.release()
    stream.synchronize()
    buffer.free()


def test_a_filling_queue_releases_the_hold(device: CudaDevice, driver: Driver) -> None:
    stream, buffer = device.stream(), device.allocate(8)
    stream.hold()
    for _ in range(holding.QUEUE_LIMIT - 1):
        stream.fill(buffer, 0)
    assert driver.word is not None and driver.word[0] == 0
    stream.fill(buffer, 0)
    assert driver.word[0] == 1
    stream.release()


def test_a_stream_that_was_let_go_runs_and_is_held_until_it_is_released(device: CudaDevice, driver: Driver) -> None:
    stream = device.stream()
    stream.let_go()  # nothing is held
    stream.hold()
    stream.let_go()
    assert driver.word is not None and driver.word[0] == 1
    with pytest.raises(BackendError, match="already held"):
        stream.hold()
    stream.release()
    stream.hold()
    assert driver.word[0] == 1
    stream.release()


def test_a_queue_that_fills_up_releases_the_holds_of_all_devices() -> None:
    """It may be full of work that waits for what another device has behind its hold."""
    many, few = holding.Holds(), holding.Holds()
    values = [np.zeros(1, dtype=np.uint32) for _ in range(2)]
    words = [holding.Word(value, 0xD0) for value in values]
    for holds, word in zip((many, few), words, strict=True):
        holds.begin(word)
    few.command()
    for _ in range(holding.QUEUE_LIMIT - 1):
        many.command()
    assert [int(value[0]) for value in values] == [0, 0]
    many.command()
    assert [int(value[0]) for value in values] == [1, 1]
    assert not few.active
    few.end(words[1])
    for holds in (many, few):
        holds.close()


def test_the_watchdog_releases_and_release_says_so() -> None:
    holds = holding.Holds(limit_s=0.05)
    value = np.zeros(1, dtype=np.uint32)
    word = holding.Word(value, 0xD0)
    assert holds.begin(word) == 1
    deadline = time.monotonic() + 10
    while not value[0] and time.monotonic() < deadline:
        time.sleep(0.005)
    assert value[0] == 1
    with pytest.raises(BackendError, match=r"held for more than 0.05 s"):
        holds.end(word)
    holds.close()


def test_a_hold_the_device_refuses_is_not_left_behind(device: CudaDevice, driver: Driver) -> None:
    stream = device.stream()
    driver.fail["cuStreamWaitValue32"] = CUresult.CUDA_ERROR_NOT_SUPPORTED
    with pytest.raises(BackendError, match="hold a stream"):
        stream.hold()
    device.synchronize()


def test_pool_memory_is_allocated_and_freed_in_the_stream(device: CudaDevice, driver: Driver) -> None:
    stream = device.stream()
    buffer = stream.allocate(256)
    assert ("cuMemPoolSetAttribute", "pool", "threshold", 2**64 - 1) in driver.calls
    assert driver.calls[-1] == ("cuMemAllocAsync", 256, stream.handle)
    address = buffer.address  # type: ignore[attr-defined]
    stream.free(buffer)
    assert driver.calls[-1] == ("cuMemFreeAsync", address, stream.handle)
    stream.allocate(8).free()
    assert driver.calls[-1][0] == "cuMemFreeAsync"
    with pytest.raises(BackendError, match=r"only a buffer from Stream\.allocate"):
        stream.free(device.allocate(8))
    with pytest.raises(OutOfMemory, match="no room for"):
        stream.allocate(1 << 31)


def test_a_capture_becomes_a_graph(device: CudaDevice, driver: Driver) -> None:
    stream = device.stream()
    stream.begin_capture()
    with pytest.raises(BackendError, match="while it is captured"):
        stream.hold()
    graph = stream.end_capture()
    assert graph.nodes == 4
    graph.launch(stream)
    assert driver.calls[-1] == ("cuGraphLaunch", "executable", stream.handle)
    graph.free()
    graph.free()
    assert driver.names_called()[-6:] == [
        "cuStreamEndCapture",
        "cuGraphGetNodes",
        "cuGraphInstantiate",
        "cuGraphDestroy",
        "cuGraphLaunch",
        "cuGraphExecDestroy",
    ]
    with pytest.raises(BackendError, match="after it was freed"):
        graph.launch(stream)


@pytest.mark.parametrize("older", [False, True], ids=["13", "12"])
def test_a_programmatic_kernel_of_a_capture_may_overlap_the_kernel_ahead(
    device: CudaDevice, driver: Driver, scale: CudaFunction, older: bool
) -> None:
    """Two releases of the bindings name the same calls differently."""
    bindings = device.libraries.bindings
    if older:
        bindings.cuStreamGetCaptureInfo_v3 = bindings.__dict__.pop("cuStreamGetCaptureInfo")
        bindings.cuStreamUpdateCaptureDependencies_v2 = bindings.__dict__.pop("cuStreamUpdateCaptureDependencies")
    stream = device.stream()
    stream.begin_capture()
    driver.captured = ["kernel ahead"]
    stream.launch(scale, (1, 1, 1), (1, 1, 1), 0, (), programmatic=True)
    (found,) = (call[1:] for call in driver.calls if call[0] == "cuStreamUpdateCaptureDependencies")
    handle, nodes, (edge,), count, flags = found
    assert (handle, nodes, count, flags) == (stream.handle, ["kernel ahead"], 1, 1)
    assert (edge.from_port, edge.type) == (1, 1)
    assert driver.names_called()[-1] == "cuLaunchKernel"


@pytest.mark.parametrize("ahead", [[], ["memcpy"], ["kernel a", "kernel b"]], ids=["nothing", "a copy", "two"])
def test_what_does_not_follow_a_single_kernel_does_not_overlap(
    device: CudaDevice, driver: Driver, scale: CudaFunction, ahead: list[str]
) -> None:
    stream = device.stream()
    stream.begin_capture()
    driver.captured = ahead
    stream.launch(scale, (1, 1, 1), (1, 1, 1), 0, (), programmatic=True)
    assert "cuStreamUpdateCaptureDependencies" not in driver.names_called()


def test_without_a_capture_or_the_device_for_it_kernels_do_not_overlap(
    device: CudaDevice, driver: Driver, scale: CudaFunction
) -> None:
    stream = device.stream()
    driver.captured = ["kernel ahead"]
    stream.launch(scale, (1, 1, 1), (1, 1, 1), 0, (), programmatic=True)
    device.programmatic = False
    stream.begin_capture()
    stream.launch(scale, (1, 1, 1), (1, 1, 1), 0, (), programmatic=True)
    assert "cuStreamGetCaptureInfo" not in driver.names_called()


@pytest.mark.parametrize(
    ("arch", "cuda", "possible"),
    [("sm_90a", "13.0", True), ("sm_120a", "12.8", True), ("sm_90a", "12.2", False), ("sm_89", "13.0", False)],
)
def test_kernels_overlap_from_hopper_and_cuda_12_3_on(device: CudaDevice, arch: str, cuda: str, possible: bool) -> None:
    assert programmatic.possible(replace(device.info, arch=arch, cuda=cuda)) is possible


def test_a_refused_overlap_is_told(device: CudaDevice, driver: Driver, scale: CudaFunction) -> None:
    stream = device.stream()
    stream.begin_capture()
    driver.captured = ["kernel ahead"]
    driver.fail["cuStreamUpdateCaptureDependencies"] = CUresult.CUDA_ERROR_INVALID_VALUE
    with pytest.raises(BackendError, match="cannot let two kernels overlap"):
        stream.launch(scale, (1, 1, 1), (1, 1, 1), 0, (), programmatic=True)


def test_a_broken_capture_is_a_launch_error(device: CudaDevice, driver: Driver) -> None:
    stream = device.stream()
    stream.begin_capture()
    driver.fail["cuStreamEndCapture"] = CUresult.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
    with pytest.raises(LaunchError, match="an earlier call broke the capture"):
        stream.end_capture()


def test_the_profiler_is_started_and_stopped(backend: CudaBackend, driver: Driver) -> None:
    backend.start_profiler()
    backend.stop_profiler()
    assert driver.names_called() == ["cuProfilerStart", "cuProfilerStop"]
