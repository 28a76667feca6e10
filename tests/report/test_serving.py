"""The plot of served traces: a column for each policy, on the same scales, a colour for each length of prompt."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from runner.report.serving import figure, write
from runner.serving.served import Served
from tests.serving.modelled import requests, served

if TYPE_CHECKING:
    from matplotlib.lines import Line2D

TRACE = requests((0, 20, 3), (0.01, 300, 2), (1.0, 20, 1))


def points(line: Line2D) -> tuple[list[float], list[float]]:
    """The x and y values of a line."""
    return np.asarray(line.get_xdata()).tolist(), np.asarray(line.get_ydata()).tolist()


def runs() -> dict[str, Served]:
    return {policy: served(TRACE, policy)[0] for policy in ("monolithic", "chunked")}


def test_the_file_is_named_after_the_title(tmp_path: Path) -> None:
    assert write(runs(), tmp_path / "new", "mini on h200") == ["mini_on_h200_over_time.png"]
    assert (tmp_path / "new" / "mini_on_h200_over_time.png").read_bytes().startswith(b"\x89PNG")


def test_a_column_for_each_policy_on_the_same_scales() -> None:
    found = figure(runs(), "mini")
    assert [panel.get_title() for panel in found.axes] == ["monolithic", "chunked", "", "", "", ""]
    assert [panel.get_ylabel() for panel in found.axes[::2]] == [
        "time to first token, s",
        "longest wait for a next token, ms",
        "requests",
    ]
    for left, right in zip(found.axes[::2], found.axes[1::2], strict=True):
        assert left.get_ylim() == right.get_ylim() and left.get_xlim() == right.get_xlim()


def test_each_request_is_a_point_in_the_colour_of_its_bucket() -> None:
    every = runs()
    panel = figure(every, "mini").axes[0]
    short, middle = panel.lines
    ttft = [one.ttft_s for one in every["monolithic"].requests]
    assert (short.get_label(), middle.get_label()) == ("prompt ≤ 128", "prompt 129 – 512")
    assert points(short) == ([0, 1.0], [ttft[0], ttft[2]]) and points(middle) == ([0.01], [ttft[1]])
    assert short.get_color() != middle.get_color()


def test_the_legend_names_buckets_and_series_once() -> None:
    (legend,) = figure(runs(), "mini").legends
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels == ["prompt ≤ 128", "prompt 129 – 512", "active", "waiting"]


def test_a_bucket_keeps_its_colour_where_another_policy_has_none_of_it() -> None:
    short = served(requests((0, 300, 1)), "chunked")[0]
    left, right = figure({"both": runs()["chunked"], "long only": short}, "mini").axes[:2]
    assert [line.get_color() for line in left.lines] == [line.get_color() for line in right.lines]


def test_nothing_served_nothing_drawn(tmp_path: Path) -> None:
    assert write({"chunked": Served((), ())}, tmp_path, "none") == [] and not list(tmp_path.iterdir())


def test_requests_of_one_token_leave_the_middle_empty() -> None:
    found = figure({"static": served(requests((0, 4, 1)), "static")[0]}, "mini")
    assert not found.axes[1].lines and points(found.axes[2].lines[0])[1] == [0, 0]
