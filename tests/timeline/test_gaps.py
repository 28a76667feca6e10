"""Gaps whose cause is known: by construction, and from what the measured programs do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.result.model import TraceEvent
from runner.timeline.gaps import RESUME_US, gaps
from runner.timeline.section import section
from runner.timeline.trace import Trace
from tests.timeline.made import REPORTS, call, copy, kernel, report, span


def shares(trace: Trace, name: str = "step") -> dict[str, float]:
    """Cause → part of the idle time."""
    found: dict[str, float] = {}
    for use in gaps(section(trace, name)):
        for cause in use.causes:
            found[cause.kind] = found.get(cause.kind, 0.0) + cause.total_us / use.total_us
    return found


def between(
    *calls: TraceEvent, submit: tuple[float, float], start: float = 100.0, end: float = 400.0
) -> tuple[str, str]:
    """Kind and call of the gap from ``start``, where one kernel ends, to ``end``, where the next begins."""
    events = [
        span(0, end + 50),
        call("cuLaunchKernel", 5, 10, 1),
        kernel(0, start, 1),
        *calls,
        call("cuLaunchKernel", *submit, 2),
        kernel(end, end + 50, 2),
    ]
    (use,) = gaps(section(Trace(events), "step"))
    assert use.count == 1
    return use.causes[0].kind, use.causes[0].call


def test_a_gap_in_which_a_launch_call_ran_is_launch_bound() -> None:
    assert between(submit=(110, 390)) == ("launch", "cuLaunchKernel")


def test_the_way_from_the_call_to_the_device_is_part_of_the_launch() -> None:
    assert between(submit=(102, 105)) == ("launch", "cuLaunchKernel")


def test_own_code_before_the_launch_is_the_host() -> None:
    assert between(submit=(380, 395)) == ("host", "")


def test_launching_anew_after_a_synchronisation_is_its_cost() -> None:
    assert between(call("cuStreamSynchronize", 20, 104), submit=(110, 120), end=122) == ("sync", "cuStreamSynchronize")
    assert between(call("cudaDeviceSynchronize", 20, 104), submit=(150, 290), end=292) == (
        "sync",
        "cudaDeviceSynchronize",
    )


def test_long_own_code_after_a_synchronisation_is_the_hosts() -> None:
    late = 104 + 3 * RESUME_US
    assert between(call("cuStreamSynchronize", 20, 104), submit=(late, late + 10), end=late + 12) == ("host", "")


def test_work_that_was_submitted_in_time_waits_for_the_device_alone() -> None:
    assert between(call("cuStreamSynchronize", 60, 350), submit=(20, 30)) == ("device", "")


def test_an_allocation_is_named_with_its_system_calls_inside() -> None:
    inner = call("ioctl", 120, 350, kind="os")
    assert between(call("cuMemAlloc", 110, 360), inner, submit=(370, 390)) == ("alloc", "cuMemAlloc")


def test_a_free_that_waited_for_the_device_is_an_allocation() -> None:
    assert between(call("cuMemFree", 50, 300), submit=(370, 390)) == ("alloc", "cuMemFree")


def test_system_calls_of_the_launching_thread_count_and_those_of_helpers_do_not() -> None:
    waiting = call("poll", 0, 1000, thread=9, kind="os")
    assert between(waiting, submit=(380, 395)) == ("host", "")
    assert between(waiting, call("read", 110, 370, kind="os"), submit=(380, 395)) == ("os", "read")


def test_another_call_is_api() -> None:
    assert between(call("cuModuleLoadData", 110, 370), submit=(380, 395)) == ("api", "cuModuleLoadData")
    assert between(call("cuStreamWaitEvent", 110, 370), submit=(380, 395)) == ("api", "cuStreamWaitEvent")


def test_a_copy_that_blocks_is_a_copy_and_one_that_does_not_is_a_launch() -> None:
    def trace(memory: str) -> Trace:
        return Trace(
            [
                span(0, 300),
                call("cuLaunchKernel", 5, 10, 1),
                kernel(0, 100, 1),
                call("cuMemcpyDtoHAsync", 102, 300, 2),
                copy(290, 300, 2, memory=memory),
            ]
        )

    assert shares(trace("pageable")) == {"copy": 1.0}
    assert shares(trace("pinned")) == {"launch": 1.0}


def test_a_call_of_the_runtime_with_one_of_the_driver_inside_is_one_call() -> None:
    trace = Trace([call("cudaLaunchKernel", 0, 10, 1), call("cuLaunchKernel", 1, 9, 2), kernel(20, 30, 2), span(0, 30)])
    (use,) = gaps(section(trace, "step"))
    assert [(cause.kind, cause.call) for cause in use.causes] == [("launch", "cudaLaunchKernel")]


def test_all_streams_are_taken_together_and_devices_apart() -> None:
    trace = Trace(
        [
            span(0, 100),
            kernel(0, 60, stream=1),
            kernel(40, 90, stream=2),
            kernel(10, 20, device=1),
            kernel(30, 40, device=1),
        ]
    )
    first, second = gaps(section(trace, "step"))
    assert (first.device, first.total_us, first.count) == (0, 10.0, 1)
    assert (second.device, second.total_us, second.count, second.max_us) == (1, 80.0, 3, 60.0)


def test_a_range_reaches_to_the_end_of_its_work_and_occurrences_add_up() -> None:
    trace = Trace(
        [
            span(0, 10),
            call("cuLaunchKernel", 1, 2, 1),
            kernel(5, 30, 1),
            span(100, 120),
            call("cuLaunchKernel", 101, 102, 2),
            kernel(110, 115, 2),
            kernel(50, 60),
        ]
    )
    (use,) = gaps(section(trace, "step"))
    assert use.span_us == 30 + 20
    assert use.total_us == 5 + 10 + 5
    assert use.count == 3


def test_without_a_record_of_the_host_there_are_no_causes() -> None:
    (use,) = gaps(section(Trace([span(0, 100), kernel(20, 30)]), "step"))
    assert (use.total_us, use.causes) == (90.0, [])


def test_a_range_without_device_work_has_no_gaps() -> None:
    assert gaps(section(Trace([span(0, 100), kernel(200, 300)]), "step")) == []


@pytest.mark.parametrize(
    ("name", "kinds", "least"),
    [
        ("sync.blocking_readback", {"sync", "copy"}, 0.8),
        ("cuda_graph_decode.eager", {"launch"}, 0.8),
        ("allocator.malloc_free", {"alloc"}, 0.95),
    ],
)
def test_the_measured_programs_wait_for_what_they_are_known_for(name: str, kinds: set[str], least: float) -> None:
    trace = report(name)
    found = shares(trace, trace.range_names()[0])
    assert sum(found.get(kind, 0.0) for kind in kinds) > least
    assert max(found, key=lambda kind: found[kind]) in kinds


def test_launching_a_graph_leaves_short_gaps_that_are_the_devices_own() -> None:
    eager, graph = (report(f"cuda_graph_decode.{variant}") for variant in ("eager", "graph"))
    (before,), (after,) = (gaps(section(trace, trace.range_names()[0])) for trace in (eager, graph))
    assert after.median_us < before.median_us / 10
    assert after.causes[0].kind == "launch"  # the first launch, of a graph that runs for 6 µs only
    assert sum(cause.count for cause in after.causes if cause.kind == "device") > 0.8 * after.count


@pytest.mark.parametrize("name", REPORTS)
def test_every_gap_has_one_cause(name: str) -> None:
    trace = report(name)
    for wanted in (trace.range_names()[0], ""):
        (use,) = gaps(section(trace, wanted))
        assert sum(cause.count for cause in use.causes) == use.count
        assert sum(cause.total_us for cause in use.causes) == pytest.approx(use.total_us)


WORK = st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, 60), st.integers(1, 3), st.integers(0, 1)), min_size=1, max_size=12
)


@given(WORK, st.lists(st.tuples(st.integers(0, 400), st.integers(1, 80)), min_size=1, max_size=4))
def test_busy_and_idle_time_are_the_span(work: list[tuple[int, int, int, int]], ranges: list[tuple[int, int]]) -> None:
    events = [kernel(start, start + took, stream=stream, device=device) for start, took, stream, device in work]
    trace = Trace([*events, *(span(start, start + took) for start, took in ranges)])
    part = section(trace, "step")
    for use in gaps(part):
        windows = part.windows(use.device)
        moments = [m + 0.5 for a, b in windows for m in range(int(a), int(b))]
        own = [event for event in events if event.device == use.device]
        busy = sum(any(event.start_us < m < event.end_us for event in own) for m in moments)
        assert use.span_us == len(moments)
        assert busy + use.total_us == use.span_us
