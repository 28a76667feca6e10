"""The rooflines of a command: which files there are, what is drawn on them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from runner.report import roofline_files, roofline_page
from runner.report.roofline import Point, points, roofs
from runner.report.roofline_files import write_rooflines
from runner.report.roofline_layout import compute_labels, looks, memory_label, ridge_labels
from runner.report.roofline_plot import MOST_ENTRIES, plot
from runner.result.model import Profile, ProfileStatus, Result
from tests.synthetic import ENVIRONMENT, result, sweep


def placed(counted: bool = False) -> list[Point]:
    """A memory-bound scan in fp32 beside two GEMMs in types of one rate, measured at different ones."""
    made = sweep([4096, 8192])
    for one in made:
        one.compute = "float32"
        one.environment = {**ENVIRONMENT, "ceilings": {"copy_gbps": 4416.0}}
        if counted:
            moved = one.metrics["bytes_moved"]
            bytes_by_level = {"counted_dram_bytes": 1.1 * moved, "counted_l2_bytes": 2 * moved}
            one.profile = Profile(ProfileStatus.OK, metrics=bytes_by_level)
    return points([*made, *(gemm(name, ceiling) for name, ceiling in (("bfloat16", 800.0), ("float16", 820.0)))])


def gemm(compute: str, ceiling: float) -> Result:
    tflops = 600.0
    metrics = {
        "time_us": 100.0,
        "tflops": tflops,
        "intensity": 1000.0,
        "gbps": tflops,
        "pct_peak_bandwidth": 100 * tflops / 4800,
        "pct_peak_flops": 100 * tflops / 989,
        "pct_ceiling_flops": 100 * tflops / ceiling,
    }
    return result(compute, kernel="gemm", metrics=metrics, compute=compute, experiment_id="<b>")


def page_figure(of: Sequence[Point]) -> dict[str, list[dict[str, object]]]:
    return json.loads(json.dumps(roofline_page.figure(of, "Roofline of h200"), allow_nan=False))  # type: ignore[no-any-return]


def test_three_files_a_device(tmp_path: Path) -> None:
    both = [*sweep([4096]), *sweep([4096], gpu="host", backend="host", peak_gbps=0.0)]
    names = [path.name for path in write_rooflines(both, tmp_path)]
    kinds = ("png", "html", "csv")
    assert names == [f"roofline_{device}.{kind}" for device in ("h200", "host") for kind in kinds]
    assert (tmp_path / "roofline_h200.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert len((tmp_path / "roofline_host.csv").read_text().splitlines()) == 1 + 3


def test_without_a_roof_there_is_none(tmp_path: Path) -> None:
    bare = result("a", metrics={"time_us": 1.0, "tflops": 1.0, "intensity": 1.0})
    assert write_rooflines([bare], tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_cap_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roofline_files, "MOST_RESULTS", 6)
    write_rooflines(sweep(range(1024, 1034)), tmp_path)
    assert "6 of 30 results drawn" in (tmp_path / "roofline_h200.html").read_text()
    assert len((tmp_path / "roofline_h200.csv").read_text().splitlines()) == 1 + 30


def test_the_page_needs_no_network(tmp_path: Path) -> None:
    text = roofline_page.page(placed(), "Roofline of <h200>")
    assert text.count("* plotly.js v") == 1
    assert not re.search(r"<(script|link|img|iframe)\b[^>]*\b(src|href)\s*=", text)
    assert "<title>Roofline of &lt;h200&gt;</title>" in text
    assert re.search(r'"showSendToCloud":\s*false', text)


def test_what_the_page_says_of_a_point() -> None:
    figure = page_figure(placed())
    (trace,) = [trace for trace in figure["data"] if trace["name"] == "bfloat16"]
    (told,) = trace["text"]  # type: ignore[misc]
    assert told.split("<br>") == [  # type: ignore[has-type]
        "<b>gemm bfloat16</b>",
        "time 100 µs",
        "600 TFLOP/s bfloat16",
        "600 GB/s, 1000 FLOP/byte (declared bytes)",
        "datasheet: 12.5 % of 4800 GB/s, 60.7 % of 989 TFLOP/s",
        "measured: 75.0 % of 800 TFLOP/s",
    ]


def test_the_page_s_levels_are_joined_and_explained() -> None:
    figure = page_figure(placed(counted=True))
    own = [trace for trace in figure["data"] if trace.get("legendgroup") == "kv_quant q8"]
    assert [trace["mode"] for trace in own] == ["markers", "markers", "markers", "lines"]
    assert [trace.get("showlegend") for trace in own] == [True, False, False, False]
    xs = own[-1]["x"]
    assert isinstance(xs, list)
    assert (len(xs), xs[3], xs[7]) == (8, None, None)
    assert [trace["name"] for trace in figure["data"][-3:]] == [
        "declared bytes",
        "counted DRAM bytes",
        "counted L2 bytes",
    ]


def test_the_picture_s_lines_follow_the_roofs() -> None:
    of = placed(counted=True)
    figure = plot(of, "Roofline of h200")
    panel = figure.axes[0]
    datasheet, *_ = panel.lines
    xs, ys = np.asarray(datasheet.get_xdata()), np.asarray(datasheet.get_ydata())
    assert ys[0] == pytest.approx(4.8 * xs[0])
    assert ys[1] == pytest.approx(989.0)
    low, high = panel.get_ylim()
    left, right = panel.get_xlim()
    assert all(low < point.tflops < high and left < point.intensity < right for point in of)
    legend = [text.get_text() for text in figure.legends[0].texts]
    assert legend == [
        *("kv_quant fp32", "kv_quant fp16", "kv_quant q8", "gemm bfloat16", "gemm float16"),
        *("datasheet roof\n4800 GB/s", "measured roof\ncopy 4416 GB/s"),
        *("declared bytes", "counted DRAM bytes", "counted L2 bytes"),
    ]


def test_labels_of_types_with_one_rate_are_one() -> None:
    lines = roofs(placed())
    assert [label.text for label in compute_labels(lines)] == [
        "bfloat16, float16 989 TFLOP/s, measured 800, 820",
        "float32 67.0 TFLOP/s",
    ]
    assert [label.text for label in ridge_labels(lines)] == [
        "ridge bfloat16, float16 206, measured 181, 186",
        "ridge float32 14.0",
    ]
    assert memory_label(lines, "datasheet") == "4800 GB/s"
    assert memory_label(lines, "measured") == "measured copy 4416 GB/s"


def test_no_two_series_of_a_kernel_look_alike() -> None:
    of = points([result(f"v{index}", index=index) for index in range(64)])
    drawn = [(look.colour, look.marker) for look in looks(of).values()]
    assert len(set(drawn)) == 64


def test_a_long_legend_names_the_kernels() -> None:
    many = [
        result(f"v{index}", index=index, kernel=f"k{index % 3}", experiment_id=str(index))
        for index in range(3 * MOST_ENTRIES)
    ]
    legend = [text.get_text() for text in plot(points(many), "t").legends[0].texts]
    assert legend[:4] == ["k0", "k1", "k2", "each marker a variant: see page, CSV"]
