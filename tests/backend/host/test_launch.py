"""What a launch refuses, what it costs, and a realistic kernel."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from runner.backend.base import BackendError, LaunchError
from runner.backend.host import HostBackend
from runner.backend.host.device import HostDevice
from tests.backend.host.harness import call, compiled, download, upload


@pytest.mark.parametrize(
    ("grid", "block", "shared", "message"),
    [
        ((1, 1, 1), (1025, 1, 1), 0, r"block=\(1025, 1, 1\), allowed are 1 to \(1024, 1024, 64\)"),
        ((1, 1, 1), (64, 32, 1), 0, r"has 2048 threads, at most 1024"),
        ((1, 1, 1), (1, 1, 65), 0, r"block="),
        ((0, 1, 1), (32, 1, 1), 0, r"grid=\(0, 1, 1\)"),
        ((1, 65536, 1), (32, 1, 1), 0, r"grid="),
        ((1, 1, 1), (32, 0, 1), 0, r"block="),
        ((1, 1, 1), (32, 1, 1), 232449, r"shared_bytes=232449, allowed are 0 to 232448"),
        ((1, 1, 1), (32, 1, 1), -1, r"shared_bytes=-1"),
    ],
)
def test_impossible_configurations(device: HostDevice, grid: Any, block: Any, shared: int, message: str) -> None:
    function = device.load(compiled("atomics")).function("empty")
    with pytest.raises(LaunchError, match=message) as caught:
        device.stream().launch(function, grid, block, shared, [np.int64(0)])
    assert "kernel empty" in str(caught.value)


def test_wrong_arguments(device: HostDevice) -> None:
    function = device.load(compiled("atomics")).function("add_one")
    buffer, stream = device.allocate(16), device.stream()

    def launch(*arguments: Any) -> None:
        stream.launch(function, (1, 1, 1), (1, 1, 1), 0, arguments)

    with pytest.raises(LaunchError, match="kernel add_one takes 2 arguments, not 1"):
        launch(buffer)
    with pytest.raises(LaunchError, match="argument 1: the kernel takes int64, not int32"):
        launch(buffer, np.int32(1))
    with pytest.raises(LaunchError, match="argument 1: the kernel takes int64, not int"):
        launch(buffer, 1)
    with pytest.raises(LaunchError, match="argument 0: the kernel takes a buffer, not float32"):
        launch(np.float32(1), np.int64(1))
    buffer.free()
    with pytest.raises(BackendError, match="used after it was freed"):
        launch(buffer, np.int64(1))


def test_an_unknown_kernel_names_those_that_exist(device: HostDevice) -> None:
    with pytest.raises(LaunchError, match=r"no kernel nothing in .*; it has: add_one, atomics, empty"):
        device.load(compiled("atomics")).function("nothing")


def test_a_file_that_is_no_program(device: HostDevice, tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="no such file"):
        device.load(tmp_path / "absent.so")
    (tmp_path / "text.so").write_text("not a library")
    with pytest.raises(BackendError, match="cannot load"):
        device.load(tmp_path / "text.so")


def test_the_memory_of_another_device_needs_peer_access(backend: HostBackend) -> None:
    first, second = backend.open(0), backend.open(1)
    theirs = upload(second, np.zeros(4, np.float32))
    function = first.load(compiled("atomics")).function("add_one")
    stream = first.stream()
    with pytest.raises(LaunchError, match="belongs to device 1, and device 0 has no access"):
        stream.launch(function, (1, 1, 1), (4, 1, 1), 0, [theirs, np.int64(4)])
    first.enable_peer_access(second)
    first.enable_peer_access(second)
    stream.launch(function, (1, 1, 1), (4, 1, 1), 0, [theirs, np.int64(4)])
    stream.synchronize()
    np.testing.assert_array_equal(download(second, theirs, np.zeros(4, np.float32)), np.ones(4))
    with pytest.raises(LaunchError, match="loaded on host device 0"):
        second.stream().launch(function, (1, 1, 1), (4, 1, 1), 0, [theirs, np.int64(4)])


def test_a_scan_of_the_kv_cache_is_fast_enough(device: HostDevice) -> None:
    heads, tokens, dim = 4 * 16, 2048, 128
    rng = np.random.default_rng(0)
    k, v = (rng.standard_normal((heads, tokens, dim), dtype=np.float32) for _ in range(2))
    q = rng.standard_normal((heads, dim), dtype=np.float32)
    arrays = [upload(device, array) for array in (k, v, q, q)]
    function = device.load(compiled("scan")).function("kv_scan")
    stream, before, after = device.stream(), device.event(), device.event()
    cost = []
    for _ in range(3):
        stream.record(before)
        used = time.process_time()
        stream.launch(function, (heads, 1, 1), (256, 1, 1), 8 * 512, [*arrays, np.int64(tokens), np.float32(0.05)])
        stream.record(after)
        stream.synchronize()
        cost.append(time.process_time() - used)
    weights = np.exp(np.einsum("htd,hd->ht", k, q) * 0.05)
    expected = np.einsum("ht,htd->hd", weights, v) / weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(download(device, arrays[3], q), expected, rtol=2e-4, atol=2e-5)
    # Two cores have two seconds of CPU time in one of wall-clock time, whatever else the machine is doing.
    assert min(cost) < 2.0, f"CPU time {cost} s"
    print(f"KV scan: {min(cost):.3f} s CPU time, last launch {after.elapsed_us(before) / 1e6:.3f} s")


def test_a_small_launch_is_cheap(device: HostDevice) -> None:
    function = device.load(compiled("atomics")).function("empty")
    stream = device.stream()
    best = float("inf")
    for _ in range(5):
        used = time.process_time()
        for _ in range(500):
            stream.launch(function, (1, 1, 1), (32, 1, 1), 0, [np.int64(0)])
        stream.synchronize()
        best = min(best, (time.process_time() - used) / 500)
    print(f"empty launch: {best * 1e6:.1f} us")
    assert best < 50e-6


def test_memory_does_not_grow(device: HostDevice) -> None:
    function = device.load(compiled("atomics")).function("add_one")
    buffer, stream, event = device.allocate(4096), device.stream(), device.event()
    process = psutil.Process()

    def thousand() -> int:
        for _ in range(1000):
            stream.launch(function, (16, 1, 1), (64, 1, 1), 0, [buffer, np.int64(1024)])
            stream.record(event)
            stream.free(stream.allocate(1 << 16))
        stream.synchronize()
        return int(process.memory_info().rss)

    thousand()
    before = thousand()
    assert thousand() - before < 2**20


def test_different_programs_share_the_threads(device: HostDevice) -> None:
    before = psutil.Process().num_threads()
    for name in ("atomics", "block", "intrinsics"):
        device.load(compiled(name))
    data = np.zeros(10_000, np.float32)
    call(device, device.load(compiled("atomics")), "add_one", (40, 1, 1), (256, 1, 1), [data, np.int64(10_000)])
    call(device, device.load(compiled("block")), "places", (9, 1, 1), (4, 1, 1), [np.zeros((36, 6), np.int32)])
    until = time.monotonic() + 10
    while psutil.Process().num_threads() > before + device.info.sms - 1:  # one that has just ended is still counted
        assert time.monotonic() < until
        time.sleep(0.05)
