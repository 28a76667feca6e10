"""Plots: which are made, and what is on them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from runner.report import plots
from runner.report.summary import write_report
from runner.result.model import Status
from tests.synthetic import result, sweep

if TYPE_CHECKING:
    from matplotlib.lines import Line2D

PNG = b"\x89PNG\r\n\x1a\n"


def points(line: Line2D) -> tuple[list[float], list[float]]:
    """The x and y values of a line."""
    return np.asarray(line.get_xdata()).tolist(), np.asarray(line.get_ydata()).tolist()


def test_a_plot_per_axis_and_a_roofline(tmp_path: Path) -> None:
    written = write_report(sweep([4096, 8192], batches=(1, 2)), tmp_path / "report")
    assert [path.name for path in written] == [
        "table.md",
        "table.csv",
        "kv_quant_h200_B.png",
        "kv_quant_h200_T.png",
        "roofline_h200.png",
        "roofline_h200.html",
        "roofline_h200.csv",
    ]
    for path in written[2:5]:
        assert path.read_bytes().startswith(PNG)


def test_devices_never_share_a_plot(tmp_path: Path) -> None:
    both = [*sweep([4096, 8192]), *sweep([4096, 8192], gpu="host", backend="host", peak_gbps=0.0)]
    names = [path.name for path in plots.write_plots(both, tmp_path)]
    assert names == ["kv_quant_h200_T.png", "kv_quant_host_T.png"]


def test_failures_are_on_no_plot(tmp_path: Path) -> None:
    bad = [result("q8", t, index=t, status=Status.INCORRECT) for t in (4096, 8192)]
    assert plots.write_plots(bad, tmp_path) == []


def test_a_ceiling_is_named_by_its_kind() -> None:
    measured = sweep([4096, 8192])
    for each in measured:
        each.environment = {**each.environment, "ceilings": {"copy_gbps": 4280.0, "read_gbps": 4420.0}}
    rate = plots.against(measured, "T", "kv_quant on h200").axes[1]
    assert "read ceiling: 4420 GB/s" in [line.get_label() for line in rate.lines]


def test_lines_axes_and_levels() -> None:
    figure = plots.against(sweep([4096, 8192, 65536]), "T", "kv_quant on h200")
    time, rate = figure.axes
    assert [line.get_label() for line in time.lines] == ["fp32", "fp16", "q8"]
    assert points(time.lines[0])[0] == [4096, 8192, 65536]
    assert (time.get_xscale(), time.get_yscale(), rate.get_yscale()) == ("log", "log", "linear")
    assert (time.get_xlabel(), time.get_ylabel()) == ("T, context", "time, µs")
    assert [tick.get_text() for tick in time.get_xticklabels()] == ["4k", "8k", "64k"]
    assert rate.get_ylabel() == "bandwidth, GB/s"
    assert [line.get_label() for line in rate.lines[3:]] == ["peak: 4800 GB/s", "ceiling: 4420 GB/s"]
    assert rate.get_ylim()[1] > 4800
    assert [text.get_text() for text in figure.legends[0].texts] == [line.get_label() for line in rate.lines]


def test_a_linear_axis_for_a_small_range() -> None:
    figure = plots.against(sweep([1000, 1500, 2000]), "T", "t")
    assert figure.axes[0].get_xscale() == "linear"
    assert figure.axes[0].get_yscale() == "linear"
    assert figure.axes[0].get_ylim()[0] == 0


def test_too_many_lines_hold_the_other_axis() -> None:
    results = sweep([4096, 8192], variants=("fp32", "fp16", "q8"), batches=(1, 2, 4, 8))
    figure = plots.against(results, "T", "kv_quant on h200")
    assert len(figure.axes[0].lines) == 3
    assert re.search(r"\(B=8\)", figure.get_suptitle())


def test_more_variants_than_markers_still_look_unlike() -> None:
    variants = tuple(f"variant_{number}" for number in range(13))
    figure = plots.against(sweep([4096, 8192], variants=variants), "T", "tp_allreduce on h200")
    looks = {(line.get_color(), line.get_marker(), line.get_linestyle()) for line in figure.axes[0].lines}
    assert len(looks) == 13
