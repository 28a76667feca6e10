"""What a profile gets from a trace."""

from __future__ import annotations

import pytest

from runner.result.model import Profile
from runner.timeline.summary import CAUSES, fill
from runner.timeline.trace import Trace
from tests.timeline.made import REPORTS, call, kernel, report, span


def filled(trace: Trace, name: str, steps: int = 1) -> Profile:
    profile = Profile(metrics={"of_another_tool": 1.0})
    fill(profile, trace, name, steps)
    return profile


@pytest.mark.parametrize("name", REPORTS)
def test_shares_are_shares(name: str) -> None:
    trace = report(name)
    metrics = filled(trace, trace.range_names()[0]).metrics
    assert metrics["gpu_busy_share"] + metrics["gpu_idle_share"] == pytest.approx(1)
    assert sum(metrics.get(f"gap_{kind}_share", 0) for kind in CAUSES) == pytest.approx(1)
    assert all(0 <= value <= 1 for key, value in metrics.items() if key.endswith("_share"))
    assert metrics["of_another_tool"] == 1.0


def test_figures_per_step_of_a_known_program() -> None:
    trace = report("cuda_graph_decode.eager")
    profile = filled(trace, "decode/cuda_graph_decode/eager", steps=16)
    assert profile.metrics["kernels_per_step"] == 4
    assert profile.metrics["launches_per_step"] == pytest.approx(65 / 16)  # one launch more than the report has kernels
    assert profile.metrics["copies_per_step"] == 0
    assert profile.metrics["kernel_time_us_per_step"] == pytest.approx(sum(k.total_us for k in profile.kernels) / 16)
    assert {use.category for use in profile.categories} == {"norm", "rope", "elementwise", "sampler"}
    assert profile.gaps[0].range == "decode/cuda_graph_decode/eager"


def test_one_launch_of_a_graph_is_many_kernels() -> None:
    metrics = filled(report("cuda_graph_decode.graph"), "decode/cuda_graph_decode/graph").metrics
    assert metrics["kernels_per_step"] / metrics["launches_per_step"] > 3


def test_time_in_host_calls_is_that_of_the_launching_thread_within_the_range() -> None:
    trace = Trace(
        [
            span(0, 100),
            call("cuLaunchKernel", 10, 20, 1),
            kernel(30, 40, 1),
            call("cuStreamSynchronize", 50, 75),
            call("cuMemFree", 80, 90),
            call("cuCtxSynchronize", 0, 100, thread=2),
            call("cuStreamSynchronize", 200, 300),
        ]
    )
    metrics = filled(trace, "step", steps=2).metrics
    assert metrics["host_sync_us"] == 12.5
    assert metrics["host_sync_share"] == pytest.approx(0.25)
    assert metrics["alloc_share"] == pytest.approx(0.1)
    assert metrics["api_launch_us"] == 10
    assert metrics["api_time_us"] == (10 + 25 + 10 + 100) / 2


def test_what_was_not_recorded_is_absent() -> None:
    metrics = filled(Trace([span(0, 100), kernel(20, 30)]), "step").metrics
    assert metrics["gpu_idle_share"] == pytest.approx(0.9)
    assert not {"launches_per_step", "api_time_us", "host_sync_share", "gap_launch_share"} & set(metrics)


def test_without_system_calls_in_the_trace_their_share_is_unknown() -> None:
    events = [span(0, 100), call("cuLaunchKernel", 10, 20, 1), kernel(30, 40, 1)]
    assert "gap_os_share" not in filled(Trace(events), "step").metrics
    told = filled(Trace([*events, call("read", 50, 60, kind="os")]), "step").metrics
    assert told["gap_os_share"] == 0 and "gap_launch_share" in told


def test_a_report_without_device_says_nothing_of_one() -> None:
    profile = filled(Trace([span(0, 100), call("read", 10, 20, kind="os")]), "step")
    assert profile.metrics == {"of_another_tool": 1.0}
    assert (profile.kernels, profile.gaps) == ([], [])
    assert [row.name for row in profile.calls] == ["read"]


def test_kernels_of_a_graph_traced_as_a_whole_are_not_counted() -> None:
    event = kernel(20, 30)
    event.kind = "graph"
    metrics = filled(Trace([span(0, 100), event]), "step").metrics
    assert "kernels_per_step" not in metrics
    assert metrics["kernel_time_us_per_step"] == 10


def test_ranges_within_the_wanted_one_have_gaps_of_their_own() -> None:
    trace = Trace(
        [span(0, 500, "capture"), span(100, 200), span(110, 150, "layer"), span(300, 310, "else"), kernel(120, 130)]
    )
    assert [use.range for use in filled(trace, "step").gaps] == ["step", "layer"]


def test_without_the_range_all_of_the_trace_counts() -> None:
    trace = Trace([call("cuLaunchKernel", 1000, 1010, 1), kernel(1020, 1040, 1), call("cuInit", 0, 900)])
    profile = filled(trace, "")
    assert profile.metrics["gpu_idle_share"] == pytest.approx(0.5)  # from the launch on: 1000 to 1040
    assert {row.name for row in profile.calls} == {"cuInit", "cuLaunchKernel"}


def test_a_wrong_number_of_steps_is_refused() -> None:
    with pytest.raises(ValueError, match="steps=0"):
        fill(Profile(), Trace(), "", 0)
