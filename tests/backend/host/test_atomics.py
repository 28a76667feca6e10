"""Atomics between OS threads, and kernels that wait for each other."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from runner.backend.host import HostBackend
from runner.backend.host.device import HostDevice
from tests.backend.host.harness import call, compiled, download, upload


def test_atomics_between_blocks(device: HostDevice) -> None:
    n = 20_000
    arrays = [
        np.array([0, 0, -1, 0, 0, 0], np.int32),
        np.array([0, 0, 0xFFFFFFFF, 0, 0], np.uint32),
        np.zeros(2, np.uint64),
        np.zeros(1, np.float32),
        np.zeros(1),
    ]
    module = device.load(compiled("atomics"))
    ints, uints, longs, floats, doubles = call(
        device, module, "atomics", (80, 1, 1), (256, 1, 1), [*arrays, np.int32(n)]
    )
    np.testing.assert_array_equal(ints, [n, -(n - 1), n - 1, -2 * n, 0, n])
    np.testing.assert_array_equal(uints, [3 * n, 0xFFFFFFFF, 0xFFFFFF00, np.bitwise_xor.reduce(np.arange(n)), n % 10])
    np.testing.assert_array_equal(longs, [n << 33, (n - 1) << 32])
    assert floats[0] == n
    assert doubles[0] == n / 2


def test_the_last_block_sees_what_the_others_wrote(device: HostDevice) -> None:
    module = device.load(compiled("atomics"))
    arrays = [np.zeros(300, np.int32), np.zeros(1, np.uint32), np.zeros(1, np.int32)]
    _, count, out = call(device, module, "last_block", (300, 1, 1), (64, 1, 1), arrays)
    assert out[0] == 300 * 301 // 2
    assert count[0] == 0


def test_threads_of_a_block_may_wait_for_a_flag(device: HostDevice) -> None:
    flags = np.zeros(65, np.int32)
    flags[64] = 1
    out = call(device, device.load(compiled("atomics")), "relay", (1, 1, 1), (64, 1, 1), [flags])[0]
    np.testing.assert_array_equal(out, np.arange(65, 0, -1))


@pytest.mark.parametrize("blocks", [1, 4])
def test_two_devices_that_wait_for_each_other_both_end(backend: HostBackend, blocks: int) -> None:
    devices = [backend.open(0), backend.open(1)]
    devices[0].enable_peer_access(devices[1])
    devices[1].enable_peer_access(devices[0])
    flags = [upload(device, np.zeros(1, np.int32)) for device in devices]
    streams = [device.stream() for device in devices]

    def wait() -> None:
        for stream in streams:
            stream.synchronize()

    for own, other in ((0, 1), (1, 0)):
        function = devices[own].load(compiled("atomics")).function("meet")
        streams[own].launch(function, (blocks, 1, 1), (1, 1, 1), 0, [flags[own], flags[other]])
    waiting = threading.Thread(target=wait)
    waiting.start()
    waiting.join(timeout=60)
    assert not waiting.is_alive()
    for device, flag in zip(devices, flags, strict=True):
        assert download(device, flag, np.zeros(1, np.int32))[0] == 1


def test_two_streams_of_a_device_that_wait_for_each_other_both_end(device: HostDevice) -> None:
    flags = [upload(device, np.zeros(1, np.int32)) for _ in range(2)]
    streams = [device.stream(), device.stream(priority=1)]
    function = device.load(compiled("atomics")).function("meet")
    streams[0].launch(function, (1, 1, 1), (1, 1, 1), 0, [flags[0], flags[1]])
    streams[1].launch(function, (1, 1, 1), (1, 1, 1), 0, [flags[1], flags[0]])
    for stream in streams:
        stream.synchronize()
    assert download(device, flags[0], np.zeros(1, np.int32))[0] == 1
