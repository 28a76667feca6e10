"""The CUDA backend on a real GPU. Figures are printed; run with ``-s`` to see them."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from runner.backend import nvml
from runner.backend.base import BackendError, LaunchError, OutOfMemory
from runner.backend.cuda import CudaBackend
from runner.backend.cuda.device import CudaDevice
from runner.backend.cuda.holding import Holds
from runner.backend.cuda.module import CudaFunction, CudaModule
from runner.backend.cuda.stream import CudaStream
from runner.build import api
from runner.build.model import BuildRequest, Program
from runner.build.sources import entry_points

pytestmark = pytest.mark.gpu

SOURCE = Path(__file__).with_name("backend.cu")
ONE = (1, 1, 1)
WARP = (32, 1, 1)


def say(name: str, text: str) -> None:
    print(f"\n[figure] {name}: {text}", flush=True)


def program(arch: str) -> Path:
    request = BuildRequest(str(SOURCE), "cuda", arch, "main", functions=entry_points(SOURCE))
    outcome = api.build([request])[request]
    assert isinstance(outcome, Program), outcome
    return outcome.path


@pytest.fixture(scope="module")
def backend() -> Iterator[CudaBackend]:
    made = CudaBackend()
    yield made
    made.close()


@pytest.fixture(scope="module")
def device(backend: CudaBackend) -> CudaDevice:
    begin = time.perf_counter()
    opened = backend.open(0)
    say("open", f"{(time.perf_counter() - begin) * 1e3:.0f} ms, {opened.info}")
    return opened


@pytest.fixture(scope="module")
def module(device: CudaDevice) -> CudaModule:
    return device.load(program(device.info.arch))


@pytest.fixture
def stream(device: CudaDevice) -> Iterator[CudaStream]:
    made = device.stream()
    yield made
    made.close()


def median_us(sample: Callable[[], float], count: int = 200) -> float:
    for _ in range(20):
        sample()
    return statistics.median(sample() for _ in range(count))


def test_a_kernel_runs_and_copies_are_exact(device: CudaDevice, module: CudaModule, stream: CudaStream) -> None:
    values = np.arange(1000, dtype=np.float32)
    buffer, other = device.allocate(values.nbytes), device.allocate(values.nbytes)
    stream.write(buffer, values)
    stream.launch(module.function("scale"), (8, 1, 1), (128, 1, 1), 0, (buffer, np.int64(1000), np.float32(3)))
    stream.copy(other, buffer, values.nbytes)
    result = np.zeros_like(values)
    stream.read(result, other)
    stream.synchronize()
    np.testing.assert_array_equal(result, values * 3)
    stream.fill(other, 0xFF)
    tail = np.zeros(2, dtype=ml_dtypes.bfloat16)
    stream.read(tail, other, 4)
    stream.synchronize()
    assert np.isnan(tail.astype(np.float32)).all()
    buffer.free()
    other.free()


def test_scalars_of_every_size_arrive(device: CudaDevice, module: CudaModule, stream: CudaStream) -> None:
    out = device.allocate(40)
    arguments = (out, np.int32(-7), np.float32(1.5), np.int64(-(2**40)), np.uint64(2**63), np.float32(0.25))
    stream.launch(module.function("mixed"), ONE, ONE, 0, arguments)
    result = np.zeros(5)
    stream.read(result, out)
    stream.synchronize()
    assert result.tolist() == [-7, 1.5, -(2.0**40), 2.0**63, 0.25]
    out.free()


def test_more_than_48_kib_of_shared_memory(device: CudaDevice, module: CudaModule, stream: CudaStream) -> None:
    count = device.info.max_shared_bytes // 4
    values = np.arange(count, dtype=np.float32)
    into, out = device.allocate(values.nbytes), device.allocate(values.nbytes)
    stream.write(into, values)
    function = module.function("reverse")
    stream.launch(function, ONE, (256, 1, 1), values.nbytes, (out, into, np.int64(count)))
    result = np.zeros_like(values)
    stream.read(result, out)
    stream.synchronize()
    np.testing.assert_array_equal(result, values[::-1])
    with pytest.raises(LaunchError, match=f"{device.info.max_shared_bytes} bytes of dynamic shared"):
        stream.launch(function, ONE, (256, 1, 1), values.nbytes + 1024, (out, into, np.int64(count)))
    into.free()
    out.free()


def test_impossible_launches_are_refused_and_leave_the_device_usable(
    device: CudaDevice, module: CudaModule, stream: CudaStream
) -> None:
    for grid, block in ((ONE, (2048, 1, 1)), ((1, 70000, 1), WARP), ((0, 1, 1), WARP), ((-1, 1, 1), WARP)):
        with pytest.raises(LaunchError) as refused:
            stream.launch(module.function("empty"), grid, block, 0, ())
        say("refused", str(refused.value))
    with pytest.raises(LaunchError, match=r"it has: empty, scale, .*trap"):
        module.function("no_such_kernel")
    stream.launch(module.function("empty"), ONE, WARP, 0, ())
    stream.synchronize()


def between_events(device: CudaDevice, stream: CudaStream, function: CudaFunction, held: bool) -> float:
    start, end = device.event(), device.event()
    if held:
        stream.hold()
    stream.record(start)
    stream.launch(function, ONE, WARP, 0, ())
    stream.record(end)
    if held:
        stream.release()
    end.synchronize()
    return end.elapsed_us(start)


def test_holding_hides_launch_latency(device: CudaDevice, module: CudaModule, stream: CudaStream) -> None:
    empty = module.function("empty")
    bare = [between_events(device, stream, empty, held=False) for _ in range(300)]
    held = [between_events(device, stream, empty, held=True) for _ in range(300)]
    for name, times in (("bare", bare), ("held", held)):
        low, middle, high = np.percentile(times, (5, 50, 95))
        say(f"empty kernel between events, {name}", f"p5 {low:.2f}, median {middle:.2f}, p95 {high:.2f} us")
    assert statistics.median(held) < statistics.median(bare)

    def hold_and_release() -> float:
        begin = time.perf_counter()
        stream.hold()
        stream.release()
        took = time.perf_counter() - begin
        stream.synchronize()
        return took * 1e6

    say("host cost of hold and release", f"{median_us(hold_and_release):.1f} us")


def test_a_spinning_kernel_takes_its_time(device: CudaDevice, module: CudaModule, stream: CudaStream) -> None:
    def took(cycles: int) -> float:
        start, end = device.event(), device.event()
        stream.record(start)
        stream.launch(module.function("spin"), ONE, ONE, 0, (np.int64(cycles),))
        stream.record(end)
        end.synchronize()
        assert end.done()
        return end.elapsed_us(start)

    took(10_000_000)  # an idle GPU first raises its clock
    short, long = (min(took(cycles) for _ in range(5)) for cycles in (1_000_000, 10_000_000))
    say("spin", f"{short:.0f} us, and {long:.0f} us for ten times the cycles")
    assert 5 < long / short < 15


def test_more_commands_than_a_queue_takes_do_not_block(
    device: CudaDevice, module: CudaModule, stream: CudaStream
) -> None:
    empty = module.function("empty")
    stream.hold()
    begin = time.perf_counter()
    for _ in range(5000):
        stream.launch(empty, ONE, WARP, 0, ())
    stream.release()
    stream.synchronize()
    took = time.perf_counter() - begin
    say("5000 launches under one hold", f"{took * 1e3:.1f} ms")
    assert took < 5


def test_the_watchdog_ends_a_wait_that_would_be_forever(device: CudaDevice, module: CudaModule) -> None:
    usual, device.holds = device.holds, Holds(limit_s=0.5)
    stream, event = device.stream(), device.event()
    stream.hold()
    stream.record(event)
    begin = time.perf_counter()
    event.synchronize()
    took = time.perf_counter() - begin
    with pytest.raises(BackendError, match=r"held for more than 0.5 s"):
        stream.release()
    say("watchdog", f"{took:.2f} s for a limit of 0.5 s")
    assert took < 5
    stream.close()
    device.holds.close()
    device.holds = usual


def test_launch_cost(device: CudaDevice, module: CudaModule, stream: CudaStream) -> None:
    empty, scale = module.function("empty"), module.function("scale")
    buffer = device.allocate(4)
    arguments = (buffer, np.int64(0), np.float32(1))

    def cost(call: Callable[[], object]) -> float:
        def sample() -> float:
            begin = time.perf_counter()
            for _ in range(100):
                call()
            took = time.perf_counter() - begin
            stream.synchronize()
            return took * 1e4

        return median_us(sample, 30)

    native = scale._native
    native.prepare(("P", np.int64, np.float32))
    say(
        "host cost of a launch",
        f"{cost(lambda: stream.launch(empty, ONE, WARP, 0, ())):.2f} us without arguments, "
        f"{cost(lambda: stream.launch(scale, ONE, WARP, 0, arguments)):.2f} us with the same three, "
        f"{cost(lambda: stream.launch(scale, ONE, WARP, 0, list(arguments))):.2f} us packed anew, "
        f"{cost(lambda: native.prepared_async_call(ONE, WARP, stream._native, buffer.address, 0, 1.0)):.2f} us "
        "by prepared_async_call",
    )
    buffer.free()


def test_a_graph_replays_what_was_captured(device: CudaDevice, module: CudaModule, stream: CudaStream) -> None:
    values = np.ones(256, dtype=np.float32)
    buffer = device.allocate(values.nbytes)
    stream.write(buffer, values)
    stream.synchronize()
    arguments = (buffer, np.int64(256), np.float32(2))
    stream.begin_capture()
    for _ in range(3):
        stream.launch(module.function("scale"), (2, 1, 1), (128, 1, 1), 0, arguments)
    graph = stream.end_capture()
    assert graph.nodes == 3
    for _ in range(2):
        graph.launch(stream)
    result = np.zeros_like(values)
    stream.read(result, buffer)
    stream.synchronize()
    assert (result == 64).all()

    def replay() -> float:
        begin = time.perf_counter()
        for _ in range(100):
            graph.launch(stream)
        took = time.perf_counter() - begin
        stream.synchronize()
        return took * 1e4

    say("host cost of a graph launch", f"{median_us(replay, 30):.2f} us for three kernels")
    graph.free()
    buffer.free()


def test_programmatic_kernels_of_a_graph_overlap_and_keep_their_order(
    device: CudaDevice, module: CudaModule, stream: CudaStream
) -> None:
    """Each starts while the one ahead still works, and goes on when that one has ended."""
    step, count = module.function("step"), 8
    x, times = device.allocate(8), [device.allocate(16) for _ in range(count)]
    seen: dict[bool, list[int]] = {}
    for programmatic in (False, True):
        stream.begin_capture()
        for each in times:
            stream.launch(step, ONE, WARP, 0, (x, np.int64(100_000), each), programmatic=programmatic)
        graph = stream.end_capture()
        assert graph.nodes == count
        stream.fill(x, 0)
        graph.launch(stream)
        value, stamps = np.empty(1), np.empty((count, 2), np.uint64)
        stream.read(value, x)
        for index, each in enumerate(times):
            stream.read(stamps[index], each)
        stream.synchronize()
        graph.free()
        assert value[0] == 2.0**count - 1.0
        began, went_on = stamps.astype(np.int64).T
        assert (np.diff(went_on) > 0).all()
        seen[programmatic] = (began[1:] - went_on[:-1]).tolist()  # from the work of one to the beginning of the next
    say("beginning after the kernel ahead went on", f"{seen} ns")
    if device.programmatic:
        assert max(seen[True]) < min(seen[False]), "none waited for the end of the one ahead"


def test_what_is_read_before_the_wait_is_what_the_kernel_before_the_last_wrote(
    device: CudaDevice, module: CudaModule, stream: CudaStream
) -> None:
    """On every SM, also where an older value was read a moment ago."""
    late, between, early = (module.function(name) for name in ("late", "between", "early"))
    blocks, rounds = 4 * device.info.sms, 50
    x, seen = device.allocate(4), [device.allocate(4 * blocks) for _ in range(rounds)]
    stream.begin_capture()
    for index, each in enumerate(seen):
        arguments = (x, np.int32(index + 1), np.int64(5_000))
        stream.launch(late, (blocks, 1, 1), WARP, 0, arguments, programmatic=True)
        stream.launch(between, (blocks, 1, 1), WARP, 0, (), programmatic=True)
        stream.launch(early, (blocks, 1, 1), WARP, 0, (x, each), programmatic=True)
    graph = stream.end_capture()
    for _ in range(20):
        stream.fill(x, 0)
        graph.launch(stream)
        values = np.empty((rounds, blocks), np.int32)
        for index, each in enumerate(seen):
            stream.read(values[index], each)
        stream.synchronize()
        np.testing.assert_array_equal(values, np.repeat(np.arange(1, rounds + 1), blocks).reshape(rounds, blocks))
    graph.free()


def test_a_capture_across_two_streams(device: CudaDevice, module: CudaModule, stream: CudaStream) -> None:
    side, fork, join = device.stream(), device.event(), device.event()
    empty = module.function("empty")
    stream.begin_capture()
    stream.launch(empty, ONE, WARP, 0, ())
    stream.record(fork)
    side.wait(fork)
    side.launch(empty, ONE, WARP, 0, ())
    side.record(join)
    stream.wait(join)
    graph = stream.end_capture()
    assert graph.nodes == 2
    graph.launch(stream)
    stream.synchronize()
    graph.free()
    side.close()


def test_pool_memory(device: CudaDevice, stream: CudaStream) -> None:
    values = np.arange(1024, dtype=np.float32)
    buffer = stream.allocate(values.nbytes)
    stream.write(buffer, values)
    result = np.zeros_like(values)
    stream.read(result, buffer)
    stream.free(buffer)
    stream.synchronize()
    np.testing.assert_array_equal(result, values)

    def pooled() -> float:
        begin = time.perf_counter()
        stream.free(stream.allocate(1 << 20))
        return (time.perf_counter() - begin) * 1e6

    def plain() -> float:
        begin = time.perf_counter()
        device.allocate(1 << 20).free()
        return (time.perf_counter() - begin) * 1e6

    say("allocate and free 1 MiB", f"{median_us(pooled):.1f} us from the pool, {median_us(plain, 50):.1f} us plain")
    with pytest.raises(OutOfMemory, match="no room for"):
        stream.allocate(device.info.memory_bytes * 2)


def test_priorities(device: CudaDevice, module: CudaModule) -> None:
    spin, many = module.function("spin"), device.info.sms * 2048 // 32 * 4
    waited = {}
    for priority in (0, 5):
        low, high = device.stream(), device.stream(priority)
        assert high.priority == priority, "the device has fewer priorities than expected"
        marks = [device.event() for _ in range(3)]
        low.record(marks[0])
        low.launch(spin, (many, 1, 1), WARP, 0, (np.int64(400_000),))
        low.record(marks[1])
        high.launch(spin, ONE, WARP, 0, (np.int64(1000),))
        high.record(marks[2])
        device.synchronize()
        waited[priority] = marks[2].elapsed_us(marks[0]) / marks[1].elapsed_us(marks[0])
        low.close()
        high.close()
    say("end of a small kernel as a share of a large one's time", f"{waited[0]:.2f} equal, {waited[5]:.2f} prior")
    assert waited[5] < waited[0]


def test_page_locked_copies_are_faster(device: CudaDevice, stream: CudaStream) -> None:
    nbytes = 256 << 20
    buffer = device.allocate(nbytes)
    locked = device.page_locked((nbytes,), np.uint8)
    pageable = np.zeros(nbytes, dtype=np.uint8)

    def gbps(copy: Callable[[], None]) -> float:
        rates = []
        for _ in range(4):
            begin = time.perf_counter()
            copy()
            stream.synchronize()
            rates.append(nbytes / (time.perf_counter() - begin) / 1e9)
        return max(rates)

    up, down = gbps(lambda: stream.write(buffer, locked)), gbps(lambda: stream.read(locked, buffer))
    slow_up, slow_down = gbps(lambda: stream.write(buffer, pageable)), gbps(lambda: stream.read(pageable, buffer))
    say("H2D / D2H", f"{up:.1f} / {down:.1f} GB/s page-locked, {slow_up:.1f} / {slow_down:.1f} GB/s pageable")
    assert up > slow_up and down > slow_down
    buffer.free()


def test_out_of_memory_is_told_and_survived(device: CudaDevice) -> None:
    with pytest.raises(OutOfMemory, match="bytes are free of") as error:
        device.allocate(device.info.memory_bytes * 2)
    say("out of memory", str(error.value))
    device.allocate(1 << 20).free()


@pytest.mark.parametrize("kernel", ["wild", "trap"])
def test_a_fault_is_classified_and_the_process_ends_cleanly(kernel: str, device: CudaDevice) -> None:
    code = f"""
import sys
from pathlib import Path
from runner.backend.base import DeviceFault
from runner.backend.open import open_backend
device = open_backend("cuda").open(0)
stream, buffer = device.stream(), device.allocate(64)
function = device.load(Path(sys.argv[1])).function({kernel!r})
stream.launch(function, (1, 1, 1), (1, 1, 1), 0, (buffer,) if {kernel!r} == "wild" else ())
for attempt in range(2):
    try:
        stream.synchronize()
    except DeviceFault as fault:
        print("FAULT", fault)
"""
    line = [sys.executable, "-c", code, str(program(device.info.arch))]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
    say(f"fault of {kernel}", f"exit {done.returncode}: {done.stdout.strip()} | stderr: {done.stderr.strip()[-500:]}")
    assert done.stdout.count("FAULT device fault") == 2
    assert done.returncode == 0


def test_a_device_can_be_closed_and_opened_again(backend: CudaBackend, device: CudaDevice) -> None:
    again = backend.open(0)
    again.allocate(1 << 20)
    again.stream()
    again.close()
    with pytest.raises(BackendError, match="after it was closed"):
        again.allocate(1)
    device.synchronize()


def test_the_profiler_region_opens_and_closes(backend: CudaBackend, device: CudaDevice) -> None:
    backend.start_profiler()
    device.synchronize()
    backend.stop_profiler()


def test_nvml_sees_the_same_gpu(device: CudaDevice, module: CudaModule, stream: CudaStream) -> None:
    assert device.info.uuid in {state.uuid for state in nvml.detect()}
    assert device.info.driver
    meter = nvml.EnergyMeter(device.info.uuid)
    meter.start()
    begin = time.perf_counter()
    while time.perf_counter() - begin < 0.5:
        stream.launch(module.function("spin"), (device.info.sms, 1, 1), WARP, 0, (np.int64(1_000_000),))
        stream.synchronize()
    energy, gpu = meter.stop(), nvml.Gpu(device.info.uuid)
    say("energy", f"{energy} mJ in {time.perf_counter() - begin:.2f} s")
    begin = time.perf_counter()
    state = gpu.snapshot()
    say("snapshot", f"{(time.perf_counter() - begin) * 1e3:.1f} ms: {state}")
    begin = time.perf_counter()
    gpu.sm_clock_mhz()
    say("one clock reading", f"{(time.perf_counter() - begin) * 1e6:.0f} us")
    assert state["sm_clock_mhz"]
    assert energy is None or energy > 0


def test_peers(backend: CudaBackend, device: CudaDevice) -> None:
    if backend.device_count() < 2:
        pytest.skip("needs two GPUs")
    other = backend.open(1)
    if not device.can_access_peer(other):
        pytest.skip("these GPUs cannot address each other's memory")
    device.enable_peer_access(other)
    device.enable_peer_access(other)
    nbytes = 1 << 30
    here, there = device.allocate(nbytes), other.allocate(nbytes)
    stream, far = device.stream(), other.stream()
    far.fill(there, 0x5A)
    ready = other.event()
    far.record(ready)
    stream.wait(ready)
    start, end = device.event(), device.event()
    for _ in range(2):
        stream.record(start)
        stream.copy(here, there, nbytes)
        stream.record(end)
        end.synchronize()
    say("peer copy", f"{nbytes / end.elapsed_us(start) / 1e3:.0f} GB/s")
    result = np.zeros(4096, dtype=np.uint8)
    stream.read(result, here, nbytes - 4096)
    stream.synchronize()
    assert (result == 0x5A).all()
    other.close()
    here.free()
