"""Streams, events, holding, graphs and the trace."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from runner.backend.base import BackendError, DeviceFault, Unsupported
from runner.backend.host import HostBackend
from runner.backend.host.device import HostDevice
from tests.backend.host.harness import compiled, download, upload

ZEROS = np.zeros(64, np.float32)
N = np.int64(64)


def test_work_runs_in_order(device: HostDevice) -> None:
    function = device.load(compiled("atomics")).function("add_one")
    stream, buffer = device.stream(), device.allocate(256)
    stream.write(buffer, ZEROS)
    for _ in range(100):
        stream.launch(function, (1, 1, 1), (64, 1, 1), 0, [buffer, N])
    result = np.empty_like(ZEROS)
    stream.read(result, buffer)
    np.testing.assert_array_equal(result, np.full(64, 100))


def test_writing_and_reading_at_an_offset(device: HostDevice) -> None:
    stream, buffer = device.stream(), device.allocate(16)
    stream.fill(buffer, 0xFF)
    stream.write(buffer, np.array([1, 2], np.uint16), offset=4)
    part = np.empty(3, np.uint16)
    stream.read(part, buffer, offset=4)
    assert part.tolist() == [1, 2, 0xFFFF]


def test_a_pageable_source_may_change_at_once(device: HostDevice) -> None:
    stream, buffer = device.stream(), device.allocate(256)
    source = np.ones(64, np.float32)
    stream.hold()
    stream.write(buffer, source)
    source[:] = 7
    stream.release()
    stream.synchronize()
    np.testing.assert_array_equal(download(device, buffer, ZEROS), np.ones(64))


def test_a_page_locked_copy_is_asynchronous(device: HostDevice) -> None:
    stream, buffer = device.stream(), upload(device, np.ones(64, np.float32))
    target = device.page_locked((64,), np.float32)
    target[:] = 0
    stream.hold()
    stream.read(target, buffer)
    time.sleep(0.02)
    assert (target == 0).all()
    stream.release()
    stream.synchronize()
    assert (target == 1).all()


def test_holding_keeps_work_back(device: HostDevice) -> None:
    stream, before, after = device.stream(), device.event(), device.event()
    stream.hold()
    stream.record(before)
    stream.record(after)
    time.sleep(0.02)
    assert not before.done()
    with pytest.raises(BackendError, match="already held"):
        stream.hold()
    with pytest.raises(BackendError, match="release"):
        stream.synchronize()
    with pytest.raises(BackendError, match="release"):
        after.synchronize()
    with pytest.raises(BackendError, match="synchronize first"):
        after.elapsed_us(before)
    stream.release()
    after.synchronize()
    assert before.done() and after.done()
    assert 0 <= after.elapsed_us(before) < 20_000
    stream.release()


def test_events_measure_what_lies_between(device: HostDevice) -> None:
    stream, events = device.stream(), [device.event() for _ in range(3)]
    gate = device.stream()
    gate.hold()
    opened = device.event()
    gate.record(opened)
    stream.record(events[0])
    stream.wait(opened)
    stream.record(events[1])
    stream.record(events[2])
    events[0].synchronize()
    time.sleep(0.05)
    gate.release()
    stream.synchronize()
    assert events[1].elapsed_us(events[0]) >= 50_000
    assert events[2].elapsed_us(events[1]) < 50_000
    assert events[0].elapsed_us(events[1]) < 0


def test_an_event_stands_for_its_latest_recording(device: HostDevice) -> None:
    stream, event, start = device.stream(), device.event(), device.event()
    event.synchronize()
    assert event.done()
    with pytest.raises(BackendError, match="were recorded"):
        event.elapsed_us(start)
    stream.record(start)
    stream.record(event)
    stream.synchronize()
    first = event.elapsed_us(start)
    stream.record(event)
    stream.synchronize()
    assert event.elapsed_us(start) > first


def test_events_order_streams_of_two_devices(backend: HostBackend) -> None:
    first, second = backend.open(0), backend.open(1)
    function = first.load(compiled("atomics")).function("add_one")
    source, target = upload(first, ZEROS), upload(second, ZEROS)
    producer, consumer, ready = first.stream(), second.stream(), first.event()
    producer.hold()
    producer.launch(function, (1, 1, 1), (64, 1, 1), 0, [source, N])
    producer.record(ready)
    consumer.wait(ready)
    consumer.copy(target, source, 256)
    time.sleep(0.02)
    producer.release()
    consumer.synchronize()
    np.testing.assert_array_equal(download(second, target, ZEROS), np.ones(64))
    with pytest.raises(BackendError, match="same device"):
        ready.elapsed_us(second.event())


def test_peers(backend: HostBackend) -> None:
    first, second = backend.open(0), backend.open(1)
    assert first.can_access_peer(second) and first.can_access_peer(first)
    stranger = HostBackend(devices=1).open(0)
    assert not first.can_access_peer(stranger)
    with pytest.raises(Unsupported, match="no peer access"):
        first.enable_peer_access(stranger)
    stranger.close()


def test_a_failure_comes_up_at_the_next_wait(device: HostDevice) -> None:
    trap = device.load(compiled("block")).function("trap")
    add = device.load(compiled("atomics")).function("add_one")
    flags, data = upload(device, np.zeros(4, np.int32)), upload(device, ZEROS)
    stream, before, after = device.stream(), device.event(), device.event()
    stream.record(before)
    stream.launch(trap, (1, 1, 1), (32, 1, 1), 0, [flags, np.int32(0)])
    stream.launch(add, (1, 1, 1), (64, 1, 1), 0, [data, N])
    stream.record(after)
    with pytest.raises(DeviceFault, match="kernel trap"):
        after.synchronize()
    with pytest.raises(DeviceFault, match="kernel trap"):
        after.elapsed_us(before)
    with pytest.raises(DeviceFault, match="kernel trap"):
        device.synchronize()
    # What came after the failure was skipped; what comes now runs.
    np.testing.assert_array_equal(download(device, data, ZEROS), ZEROS)
    stream.launch(add, (1, 1, 1), (64, 1, 1), 0, [data, N])
    stream.synchronize()
    np.testing.assert_array_equal(download(device, data, ZEROS), np.ones(64))


def test_a_failure_does_not_leave_another_stream_waiting(device: HostDevice) -> None:
    trap = device.load(compiled("block")).function("trap")
    first, second, event = device.stream(), device.stream(), device.event()
    first.launch(trap, (1, 1, 1), (32, 1, 1), 0, [upload(device, np.zeros(4, np.int32)), np.int32(0)])
    first.record(event)
    second.wait(event)
    second.synchronize()
    with pytest.raises(DeviceFault):
        first.synchronize()


def test_priorities_are_clamped(device: HostDevice) -> None:
    assert [device.stream(priority).priority for priority in (-3, 0, 2, 99)] == [0, 0, 2, 5]


def test_a_closed_stream_takes_no_work(device: HostDevice) -> None:
    stream = device.stream()
    stream.hold()
    stream.close()
    stream.close()
    with pytest.raises(BackendError, match="after it was closed"):
        stream.fill(device.allocate(4), 0)


def test_closing_a_device_ends_its_threads() -> None:
    device = HostBackend(devices=1).open(0)
    stream = device.stream()
    stream.hold()
    stream.fill(device.allocate(16), 1)
    device.close()
    assert not [one for one in threading.enumerate() if one.name.startswith("host0-stream") and one.is_alive()]


def test_a_graph_replays_what_was_captured(device: HostDevice) -> None:
    function = device.load(compiled("atomics")).function("add_one")
    stream, buffer = device.stream(), upload(device, ZEROS)
    start, end = device.event(), device.event()
    target = device.page_locked((64,), np.float32)
    target[:] = -1
    stream.begin_capture()
    stream.record(start)
    for _ in range(3):
        stream.launch(function, (1, 1, 1), (64, 1, 1), 0, [buffer, N])
    stream.record(end)
    stream.read(target, buffer)
    with pytest.raises(BackendError, match="captured"):
        stream.synchronize()
    graph = stream.end_capture()
    assert graph.nodes == 4
    assert (target == -1).all() and end.done()
    for replay in (1, 2):
        graph.launch(stream)
        stream.synchronize()
        assert (target == 3 * replay).all()
        assert end.elapsed_us(start) >= 0
    graph.free()
    with pytest.raises(BackendError, match="after it was freed"):
        graph.launch(stream)


def test_a_second_stream_joins_a_capture_through_an_event(backend: HostBackend) -> None:
    first, second = backend.open(0), backend.open(1)
    function = second.load(compiled("atomics")).function("add_one")
    buffer = upload(second, ZEROS)
    origin, branch = first.stream(), second.stream()
    fork, join = first.event(), second.event()
    origin.begin_capture()
    origin.record(fork)
    branch.wait(fork)
    branch.launch(function, (1, 1, 1), (64, 1, 1), 0, [buffer, N])
    branch.record(join)
    origin.wait(join)
    graph = origin.end_capture()
    assert graph.nodes == 1
    branch.synchronize()
    graph.launch(origin)
    origin.synchronize()
    np.testing.assert_array_equal(download(second, buffer, ZEROS), np.ones(64))


def test_what_a_capture_refuses(device: HostDevice) -> None:
    stream, other, event = device.stream(), device.stream(), device.event()
    other.record(event)
    with pytest.raises(BackendError, match="without begin_capture"):
        stream.end_capture()
    stream.begin_capture()
    for refused in (stream.begin_capture, stream.hold, lambda: stream.wait(event)):
        with pytest.raises(BackendError, match="captur"):
            refused()
    stream.end_capture()


def test_memory_allocated_in_a_capture_belongs_to_the_graph(device: HostDevice) -> None:
    free = device.free_bytes()
    stream = device.stream()
    stream.begin_capture()
    buffer = stream.allocate(256)
    stream.fill(buffer, 3)
    stream.free(buffer)
    graph = stream.end_capture()
    graph.launch(stream)
    graph.launch(stream)
    stream.synchronize()
    assert device.free_bytes() == free - 256
    graph.free()
    assert device.free_bytes() == free


def test_the_trace_has_launches_and_copies(backend: HostBackend) -> None:
    device, peer = backend.open(0), backend.open(1)
    function = device.load(compiled("atomics")).function("add_one")
    stream, theirs = device.stream(), peer.allocate(256)
    buffer = upload(device, ZEROS)
    backend.trace = []
    stream.launch(function, (1, 1, 1), (64, 1, 1), 0, [buffer, N])
    stream.write(buffer, ZEROS)
    stream.copy(theirs, buffer, 256)
    stream.fill(buffer, 1)
    stream.synchronize()
    trace, backend.trace = backend.trace, None
    stream.fill(buffer, 1)
    stream.synchronize()
    work = [event for event in trace if event.kind != "api"]
    kinds = [("launch", "add_one"), ("copy", "HtoD"), ("copy", "PtoP"), ("fill", "memset")]
    assert [(event.kind, event.name) for event in work] == kinds
    assert {(event.device, event.stream) for event in work} == {(0, 0)}
    assert [event.bytes for event in work] == [0, ZEROS.nbytes, 256, ZEROS.nbytes]
    assert (work[0].grid, work[0].block, work[1].memory) == ("1x1x1", "64x1x1", "pageable")
    times = [time for event in work for time in (event.start_us, event.end_us)]
    assert times == sorted(times)


def test_the_trace_has_the_calls_behind_the_work(backend: HostBackend) -> None:
    device = backend.open(0)
    function = device.load(compiled("atomics")).function("add_one")
    stream = device.stream()
    buffer = upload(device, ZEROS)
    target, pinned = np.empty_like(ZEROS), device.page_locked(ZEROS.shape, ZEROS.dtype)
    event = device.event()
    backend.trace = []
    stream.launch(function, (1, 1, 1), (64, 1, 1), 0, [buffer, N])
    stream.read(pinned, buffer)
    stream.read(target, buffer)
    stream.record(event)
    event.synchronize()
    stream.synchronize()
    trace, backend.trace = backend.trace, None
    calls = sorted((one for one in trace if one.kind == "api"), key=lambda one: one.start_us)
    assert [call.name for call in calls] == [
        "hostLaunchKernel",
        "hostMemcpyDtoHAsync",
        "hostMemcpyDtoH",
        "hostEventSynchronize",
        "hostStreamSynchronize",
    ]
    assert {call.thread for call in calls} == {threading.get_native_id()}
    work = [one for one in trace if one.kind != "api"]
    assert [one.correlation for one in work] == [call.correlation for call in calls[:3]]
    assert [one.memory for one in work] == ["", "pinned", "pageable"]
    assert all(one.start_us >= call.start_us for one, call in zip(work, calls, strict=False))
    assert calls[2].end_us >= work[2].end_us, "a copy to pageable memory returns when it is done"


def test_the_work_of_a_graph_belongs_to_the_call_that_launched_it(backend: HostBackend) -> None:
    device = backend.open(0)
    stream = device.stream()
    buffer = upload(device, ZEROS)
    backend.trace = []
    stream.begin_capture()
    stream.fill(buffer, 1)
    stream.fill(buffer, 2)
    graph = stream.end_capture()
    graph.launch(stream)
    graph.launch(stream)
    stream.fill(buffer, 3)
    stream.synchronize()
    trace, backend.trace = backend.trace, None
    launches = [event.correlation for event in trace if event.name == "hostGraphLaunch"]
    *replayed, alone = (event.correlation for event in trace if event.kind == "fill")
    assert replayed == [launches[0]] * 2 + [launches[1]] * 2
    assert alone not in launches
    graph.free()
