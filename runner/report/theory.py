"""Theory beside measurement as files: the table of an estimate, and the points of a sweep."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from runner.estimate.model import Compared, Estimate
from runner.report.plots import DECADE, MANY, MARKERS, blank, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TABLE = "theory_vs_measured.csv"
PLOT = "theory_vs_measured.png"
_LABELS = {"ttft_ms": "time to the first token, ms", "tpot_ms": "time per output token, ms", "tokens_per_s": "tokens/s"}
_MARGIN = 1.3
"""Room around the points, as a factor."""


def table_csv(made: Estimate) -> str:
    """A line per measurement and figure; milliseconds, or tokens per second. Where every level is told, each has a
    column at the end."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    levels = list(dict.fromkeys(level for row in made.compared for level in row.levels))
    head = ["measured_by", "source", "figure", "level", "theoretical", "measured", "ratio", "main_reason"]
    writer.writerow([*head, *(level.replace(" ", "_") for level in levels)])
    for row in made.compared:
        level = made.efficiency.level
        told = [row.measured_by, row.source, row.figure, level, row.theoretical, row.measured, row.ratio, row.reason]
        writer.writerow([*told, *(row.levels.get(level, "") for level in levels)])
    return stream.getvalue()


def write_plot(estimates: Sequence[Estimate], folder: Path) -> list[Path]:
    """Draws the points into ``folder`` and returns the path; nothing where no estimate has a measurement."""
    rows = [row for made in estimates for row in made.compared]
    if not rows:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    figure(rows).savefig(folder / PLOT, dpi=110)
    return [folder / PLOT]


def figure(rows: Sequence[Compared]) -> Figure:
    """Measured over theoretical, a panel for each figure, both axes logarithmic; on the diagonal they agree."""
    figures = [name for name in _LABELS if any(row.figure == name for row in rows)]
    drawn = blank(1.6 + 4.2 * len(figures), 4.4)
    panels = drawn.subplots(1, len(figures), squeeze=False)[0]
    names = list(dict.fromkeys(row.measured_by for row in rows))
    for panel, name in zip(panels, figures, strict=True):
        points = [row for row in rows if row.figure == name]
        ends = [figure for row in points for figure in (row.theoretical, row.measured)]
        span = (min(ends) / _MARGIN, max(ends) * _MARGIN)
        panel.plot(span, span, color="#444444", linewidth=1.0, label="measured = theoretical")
        for index, who in enumerate(names):
            here = [row for row in points if row.measured_by == who]
            panel.plot(
                [row.theoretical for row in here],
                [row.measured for row in here],
                MARKERS[index % len(MARKERS)],
                color=MANY[index % len(MANY)],
                markersize=5,
                alpha=0.8,
                label=who,
            )
        panel.set(xscale="log", yscale="log", xlim=span, ylim=span, aspect="equal")
        _plain_ticks(panel, span[1] / span[0])
        panel.set(xlabel=f"theoretical {_LABELS[name]}", ylabel=f"measured {_LABELS[name]}")
    finish(drawn, panels[0], "theory beside measurement")
    return drawn


def _plain_ticks(panel: Axes, ratio: float) -> None:
    """Plain numbers at 1, 2 and 5 of each decade, at the decades alone where there are more than two."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0) if ratio < DECADE**2 else (1.0,)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
