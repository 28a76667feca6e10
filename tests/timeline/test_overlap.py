"""Overlap of work whose times are known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runner.result.model import TraceEvent
from runner.timeline import overlap
from runner.timeline.section import section
from runner.timeline.trace import Trace
from tests.timeline.made import call, copy, kernel, report


def figures(*events: TraceEvent) -> dict[str, float]:
    return overlap.metrics(section(Trace(list(events))))


def test_half_of_a_copy_beside_a_kernel() -> None:
    found = figures(copy(0, 10, stream=1), kernel(5, 25, stream=2))
    assert found["copy_overlap_share"] == 0.5
    assert found["copy_time_share"] == pytest.approx(10 / 25)
    assert found["multi_stream_share"] == pytest.approx(5 / 25)
    assert found["streams_used"] == 2


def test_a_kernel_on_another_device_is_no_overlap() -> None:
    assert figures(copy(0, 10), kernel(0, 10, device=1))["copy_overlap_share"] == 0


def test_a_copy_between_devices_runs_beside_kernels_of_either() -> None:
    between = replace(copy(0, 10), name=overlap.PEER)
    assert figures(between, kernel(0, 10, device=1))["copy_overlap_share"] == 1
    found = figures(between, copy(0, 10, stream=9), kernel(5, 10, device=1))
    assert found["copy_overlap_share"] == 0.25
    assert found["copy_time_share"] == pytest.approx(10 / 15)


def test_without_copies_nothing_is_said_of_their_overlap() -> None:
    found = figures(kernel(0, 10), kernel(10, 30))
    assert "copy_overlap_share" not in found
    assert (found["copy_time_share"], found["multi_stream_share"]) == (0, 0)


def test_two_kernels_of_one_stream_are_one_stream() -> None:
    assert figures(kernel(0, 10), kernel(5, 15))["multi_stream_share"] == 0


def test_short_work_waits_for_a_long_kernel_ahead() -> None:
    found = figures(
        call("cuLaunchKernel", 0, 2, 1),
        kernel(3, 103, 1),
        call("cuLaunchKernel", 10, 13, 2),
        kernel(103, 105, 2, stream=8),
        call("cuLaunchKernel", 104, 106, 3),
        kernel(107, 109, 3, stream=8),
    )
    assert found["longest_kernel_wait_us"] == 90
    assert found["longest_kernel_us"] == 100
    assert found["longest_kernel_share"] == pytest.approx(100 / 104)


def test_work_that_runs_beside_the_long_kernel_waits_for_nothing() -> None:
    found = figures(
        call("cuLaunchKernel", 0, 2, 1),
        kernel(3, 103, 1),
        call("cuLaunchKernel", 10, 13, 2),
        kernel(14, 16, 2, stream=8),
    )
    assert found["longest_kernel_wait_us"] == 0


def test_without_calls_no_wait_is_known() -> None:
    assert "longest_kernel_wait_us" not in figures(kernel(0, 10))


def test_copies_both_ways_share_the_time_in_the_pipelined_transfer() -> None:
    found = overlap.metrics(section(report("host_transfer.pinned_overlap_pipeline")))
    assert found["streams_used"] == 2
    assert found["multi_stream_share"] > 0.5
    assert found["copy_time_share"] > 0.9
