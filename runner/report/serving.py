"""The plot of served traces: what each request waited for its first token, and what held up tokens and requests."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from runner.report.plots import DECADE, MANY, MARKERS, blank, finish, scale_log
from runner.serving.buckets import EDGES, buckets
from runner.serving.series import longest_gaps, over_time
from runner.serving.served import Served

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIX = "_over_time.png"
_GAPS, _ACTIVE, _WAITING = "#555555", "#9ecae1", "#000000"
_ROOM = 1.08
"""Of a linear axis, over the highest value."""


def write(runs: Mapping[str, Served], folder: Path, title: str, edges: Sequence[int] = EDGES) -> list[str]:
    """Draws the figure into ``folder`` and returns the file's name; nothing where nothing was served."""
    if not any(served.requests for served in runs.values()):
        return []
    folder.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^\w.-]+", "_", title) + SUFFIX
    figure(runs, title, edges).savefig(folder / name, dpi=130)
    return [name]


def figure(runs: Mapping[str, Served], title: str, edges: Sequence[int] = EDGES) -> Figure:
    """A column for each of ``runs`` (policy → its trace, served), on the same scales: the TTFT of each request over its
    arrival by length of prompt, the longest wait for a next token over time, and the requests that had a slot or
    waited for one over time."""
    shown = {policy: served for policy, served in runs.items() if served.requests}
    drawn = blank(2.6 + 3.7 * len(shown), 7.4)
    grid = drawn.subplots(3, len(shown), sharex=True, sharey="row", squeeze=False)
    labels = _labels(shown, edges)
    for column, (policy, served) in zip(grid.T, shown.items(), strict=True):
        column[0].set_title(policy, fontsize=10)
        _draw_ttft(column[0], served, labels, edges)
        _draw_gaps(column[1], served)
        _draw_requests(column[2], served)
    for row, label in zip(
        grid, ("time to first token, s", "longest wait for a next token, ms", "requests"), strict=True
    ):
        row[0].set_ylabel(label, fontsize=9)
        for panel in row:
            panel.tick_params(labelsize=8)
    _scale(grid[0, 0], [one.ttft_s for served in shown.values() for one in served.requests])
    _scale(grid[1, 0], [1e3 * gap_s for served in shown.values() for _, gap_s in longest_gaps(served)])
    grid[2, 0].set_ylim(bottom=0)
    for panel in grid[-1]:
        panel.set_xlabel("time from the first arrival, s", fontsize=9)
    finish(drawn, grid[0, -1], title, grid[2, -1])
    return drawn


def _labels(runs: Mapping[str, Served], edges: Sequence[int]) -> list[str]:
    """Of the buckets that any of them has, the shortest prompts first."""
    every = [record for served in runs.values() for record in served.requests]
    return [bucket.label for bucket in buckets(every, edges)]


def _draw_ttft(panel: Axes, served: Served, labels: Sequence[str], edges: Sequence[int]) -> None:
    """Every label gets its entry in the legend, with points or without."""
    members = {bucket.label: bucket.records for bucket in buckets(served.requests, edges)}
    for index, label in enumerate(labels):
        records = members.get(label, ())
        panel.plot(
            [one.request.arrival_s for one in records],
            [one.ttft_s for one in records],
            MARKERS[index % len(MARKERS)],
            color=MANY[index % len(MANY)],
            markersize=4,
            alpha=0.75,
            linestyle="none",
            label=f"prompt {label}",
        )


def _draw_gaps(panel: Axes, served: Served) -> None:
    points = longest_gaps(served)
    if points:
        panel.plot(
            *zip(*[(at_s, 1e3 * gap_s) for at_s, gap_s in points], strict=True), ".", color=_GAPS, markersize=2.5
        )


def _draw_requests(panel: Axes, served: Served) -> None:
    points = over_time(served)
    times = [point.at_s for point in points]
    active, waiting = [point.active for point in points], [point.waiting for point in points]
    panel.fill_between(times, active, step="post", color=_ACTIVE, linewidth=0, label="active")
    panel.plot(times, waiting, drawstyle="steps-post", color=_WAITING, linewidth=1.0, label="waiting")


def _scale(panel: Axes, values: Sequence[float]) -> None:
    """Logarithmic where the values span more than a decade, from zero otherwise."""
    if values and min(values) > 0 and max(values) / min(values) > DECADE:
        scale_log(panel)
    else:
        panel.set_ylim(0, _ROOM * max(values, default=1.0))
