"""Buffers, the budget, the pool, page-locked arrays and what the device says about itself."""

from __future__ import annotations

import uuid

import ml_dtypes
import numpy as np
import pytest

from runner.backend.base import Backend, BackendError, Buffer, Device, OutOfMemory
from runner.backend.host import HostBackend, machine
from runner.backend.host.device import HostDevice
from runner.backend.host.memory import Budget, HostBuffer
from runner.backend.open import open_backend


def own(buffer: Buffer) -> HostBuffer:
    assert isinstance(buffer, HostBuffer)
    return buffer


def test_it_is_a_backend() -> None:
    backend: Backend = open_backend("host")
    assert isinstance(backend, HostBackend)
    device: Device = backend.open(0)
    assert isinstance(device.allocate(1), Buffer)
    device.close()


def test_device_info(backend: HostBackend) -> None:
    first, second = backend.open(0).info, backend.open(1).info
    assert (first.ordinal, second.ordinal) == (0, 1)
    assert first.uuid != second.uuid
    assert first.uuid == machine.device_info(0).uuid
    assert uuid.UUID(first.uuid.removeprefix("HOST-"))
    assert first.backend == "host" and first.cuda == "" and first.max_shared_bytes == 232448
    assert first.sms >= 1 and first.memory_bytes > 2**28 and first.l2_bytes >= 0 and first.name


def test_how_many_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RUNNER_HOST_DEVICES", raising=False)
    assert HostBackend().device_count() == 2
    monkeypatch.setenv("RUNNER_HOST_DEVICES", "5")
    assert HostBackend().device_count() == 5
    assert HostBackend(devices=3).device_count() == 3
    with pytest.raises(BackendError, match="no host device 3: there are 3"):
        HostBackend(devices=3).open(3)
    for wrong in ("0", "many", "65", "-1"):
        monkeypatch.setenv("RUNNER_HOST_DEVICES", wrong)
        with pytest.raises(BackendError, match=f"RUNNER_HOST_DEVICES='?{wrong}'?: allowed are 1 to 64"):
            HostBackend()


def test_the_order_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RUNNER_HOST_ORDER", raising=False)
    assert HostBackend().seed == 1
    monkeypatch.setenv("RUNNER_HOST_ORDER", "0")
    assert HostBackend().seed == 0
    assert HostBackend(seed=7).seed == 7
    monkeypatch.setenv("RUNNER_HOST_ORDER", "-1")
    with pytest.raises(BackendError, match="RUNNER_HOST_ORDER='-1': allowed are whole numbers"):
        HostBackend()


def test_a_device_can_be_opened_again(backend: HostBackend) -> None:
    first = backend.open(0)
    assert backend.open(0) is first
    first.close()
    first.close()
    assert backend.open(0) is not first


def test_buffers_are_aligned_and_sized(device: HostDevice) -> None:
    free = device.free_bytes()
    sizes = (0, 1, 255, 1000, 5 << 20)
    buffers = [device.allocate(size) for size in sizes]
    assert [buffer.nbytes for buffer in buffers] == list(sizes)
    assert all(own(buffer).address % 256 == 0 for buffer in buffers)
    assert free - device.free_bytes() == sum(sizes)
    for buffer in buffers:
        buffer.free()
    assert device.free_bytes() == free
    with pytest.raises(BackendError, match="used after it was freed"):
        buffers[0].free()


def test_out_of_memory_names_both_numbers(backend: HostBackend) -> None:
    backend.budget = Budget(1000)
    device, other = HostDevice(backend, machine.device_info(0)), HostDevice(backend, machine.device_info(1))
    device.allocate(600)
    with pytest.raises(OutOfMemory, match="host device 1: 401 bytes asked for, 400 bytes free"):
        other.allocate(401)
    other.allocate(400)
    assert device.free_bytes() == 0
    device.close()
    assert other.free_bytes() == 600
    other.close()


def test_more_than_the_machine_has(device: HostDevice) -> None:
    with pytest.raises(OutOfMemory, match=f"{2**50} bytes asked for"):
        device.allocate(2**50)


def test_the_pool_reuses_blocks_until_a_synchronisation(device: HostDevice) -> None:
    stream = device.stream()
    free = device.free_bytes()
    buffer = stream.allocate(5000)
    address = own(buffer).address
    stream.free(buffer)
    with pytest.raises(BackendError, match="used after it was freed"):
        stream.fill(buffer, 0)
    event = device.event()
    stream.record(event)
    event.synchronize()
    again = stream.allocate(5000)
    assert own(again).address == address
    stream.free(again)
    stream.synchronize()
    assert device.free_bytes() == free
    with pytest.raises(BackendError, match="only a buffer that a stream allocated"):
        stream.free(device.allocate(8))


def test_the_pool_gives_way_to_a_large_allocation(backend: HostBackend) -> None:
    backend.budget = Budget(1000)
    device = HostDevice(backend, machine.device_info(0))
    stream, event = device.stream(), device.event()
    stream.free(stream.allocate(900))
    stream.record(event)
    event.synchronize()
    device.allocate(1000)
    device.close()


def test_freeing_waits_for_queued_work(device: HostDevice) -> None:
    stream = device.stream()
    target = np.zeros(1 << 20, np.uint8)
    pinned = device.page_locked(target.shape, np.uint8)
    buffer = device.allocate(target.nbytes)
    for byte in range(50):
        stream.fill(buffer, byte)
    stream.read(pinned, buffer)
    buffer.free()
    assert (pinned == 49).all()


def test_page_locked_arrays_are_known_with_their_views(device: HostDevice) -> None:
    array = device.page_locked((8, 16), np.float32)
    assert array.shape == (8, 16) and array.dtype == np.float32
    assert device.locked.contains(array) and device.locked.contains(array[2:4])
    assert device.locked.contains(array.reshape(-1).view(np.uint8))
    assert not device.locked.contains(np.zeros(4))
    assert device.page_locked((3,), ml_dtypes.bfloat16).dtype == ml_dtypes.bfloat16
    known = len(device.locked._ranges)
    del array
    assert len(device.locked._ranges) == known - 1


def test_spans_outside_a_buffer(device: HostDevice) -> None:
    stream, buffer = device.stream(), device.allocate(16)
    with pytest.raises(BackendError, match="8 bytes at offset 12 do not lie within a buffer of 16"):
        stream.write(buffer, np.zeros(1), offset=12)
    with pytest.raises(BackendError, match="do not lie within"):
        stream.read(np.zeros(3), buffer)
    with pytest.raises(BackendError, match="do not lie within"):
        stream.copy(buffer, device.allocate(100), 17)
    with pytest.raises(BackendError, match="C-contiguous"):
        stream.write(buffer, np.zeros((4, 4))[:, 0])
    with pytest.raises(BackendError, match="byte=256"):
        stream.fill(buffer, 256)
