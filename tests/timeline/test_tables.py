"""The tables of a section."""

from __future__ import annotations

import pytest

from runner.timeline import tables
from runner.timeline.categories import Categories
from runner.timeline.section import section
from runner.timeline.trace import Trace
from tests.timeline.made import REPORTS, call, kernel, report, span


@pytest.mark.parametrize("name", REPORTS)
def test_shares_add_up_and_the_largest_comes_first(name: str) -> None:
    trace = report(name)
    rows = tables.kernels(section(trace), Categories())
    uses = tables.by_category(rows)
    for table in (rows, uses):
        assert sum(row.share for row in table) == pytest.approx(1)
        assert [row.total_us for row in table] == sorted((row.total_us for row in table), reverse=True)
    assert sum(use.calls for use in uses) == len(trace.work)


def test_a_kernel_has_the_shape_of_its_largest_launch() -> None:
    small, large = kernel(0, 1), kernel(2, 5)
    small.grid, small.block, small.registers = "1x1x1", "256x1x1", 20
    large.grid, large.block, large.registers, large.shared_bytes = "64x2x1", "128x1x1", 40, 1024
    (row,) = tables.kernels(section(Trace([small, large])), Categories())
    assert (row.calls, row.total_us, row.mean_us) == (2, 4.0, 2.0)
    assert (row.grid, row.block, row.registers, row.shared_bytes) == ("64x2x1", "128x1x1", 40, 1024)


def test_a_range_holds_the_work_it_called_for_and_the_calls_begun_in_it() -> None:
    trace = Trace(
        [
            span(10, 20),
            call("cuLaunchKernel", 5, 6, 1),
            kernel(12, 14, 1, name="before"),
            call("cuLaunchKernel", 18, 19, 2),
            kernel(40, 45, 2, name="within"),
            call("cuProfilerStop", 30, 31),
        ]
    )
    part = section(trace, "step")
    assert [row.name for row in tables.kernels(part, Categories())] == ["within"]
    assert [(row.name, row.calls) for row in tables.calls(part)] == [("cuLaunchKernel", 1)]
    assert {row.name: row.calls for row in tables.calls(section(trace))} == {"cuLaunchKernel": 2, "cuProfilerStop": 1}


def test_the_range_of_a_report_leaves_out_the_profilers_own_calls() -> None:
    trace = report("host_transfer.pinned_overlap_pipeline")
    within = {row.name for row in tables.calls(section(trace, trace.range_names()[0]))}
    everywhere = {row.name for row in tables.calls(section(trace))}
    assert everywhere - within == {"cuProfilerStart", "cuProfilerStop"}
