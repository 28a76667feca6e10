"""The roofline as a picture: datasheet roofs solid, measured ones dashed, a colour per kernel, a marker per variant."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from runner.report.plots import MARKERS, blank, finish, scale_log
from runner.report.roofline import SOURCES, Point, Roof, roofs
from runner.report.roofline_layout import (
    LEVELS,
    ROOF,
    Span,
    compute_labels,
    joins,
    looks,
    memory_label,
    rate_unit,
    ridge_height,
    ridge_labels,
    segment,
    spanned,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_ENTRIES = 30
"""Series in the legend; a longer one would be higher than the plot."""
_CROWD = 400
"""Points beyond which they are drawn smaller and fainter."""
_SMALL: dict[str, Any] = {
    "fontsize": 8,
    "color": ROOF,
    "zorder": 2.5,
    "bbox": {"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.5},
}
"""Labels: above the lines, below the points."""
_STYLES = {"datasheet": "-", "measured": "--"}


def plot(placed: Sequence[Point], title: str, note: str = "") -> Figure:
    """The figure; ``note`` stands under the title. The points must have at least one roof."""
    lines = roofs(placed)
    span = spanned(placed, lines)
    unit, scale = rate_unit(placed)
    figure = blank(10.4, 6.2)
    panel = figure.subplots()
    panel.set(xscale="log", xlim=(span.low, span.high), ylim=(span.bottom / scale, span.top / scale))
    _roofs(panel, lines, span, scale)
    if not any(point.level == "l2" for point in placed):  # those lie above the roof; the legend says it then
        _along(panel, lines, span, scale)
    _points(panel, placed, scale)
    _key(panel, placed, lines)
    scale_log(panel)
    _plain_x(panel)
    panel.set(xlabel="arithmetic intensity, FLOP per byte", ylabel=f"rate, {unit}")
    finish(figure, panel, f"{title}\n{note}" if note else title)
    return figure


def _roofs(panel: Axes, lines: Sequence[Roof], span: Span, scale: float) -> None:
    """Lines, ridge points and what they are called."""
    for line in lines:
        xs, ys = segment(line, lines, span)
        panel.plot(xs, [y / scale for y in ys], _STYLES[line.source], color=ROOF, linewidth=1.3, zorder=1)
        if line.kind == "compute" and line.ridge:
            face = ROOF if line.source == "datasheet" else "white"
            panel.plot([line.ridge], [line.rate / scale], "o", color=ROOF, markerfacecolor=face, markersize=4, zorder=2)
    for label in compute_labels(lines):
        panel.annotate(
            label.text,
            (span.high, label.at / scale),
            (-2, 3),
            textcoords="offset points",
            ha="right",
            va="bottom",
            **_SMALL,
        )
    for label in ridge_labels(lines):
        panel.vlines(
            label.at,
            span.bottom / scale,
            ridge_height(lines, label) / scale,
            ROOF,
            ":",
            linewidth=0.8,
            alpha=0.7,
            zorder=0,
        )
        panel.annotate(
            label.text,
            (label.at, span.bottom / scale),
            (2, 4),
            textcoords="offset points",
            rotation=90,
            va="bottom",
            **_SMALL,
        )


def _along(panel: Axes, lines: Sequence[Roof], span: Span, scale: float) -> None:
    """The bandwidths, along the sloping roofs."""
    slopes = [line.rate for line in lines if line.kind == "memory"]
    if not slopes:
        return
    x = 1.15 * span.low
    y = 1.12 * x * max(slopes) * 1e-3 / scale
    panel.text(
        x,
        y,
        ", ".join(filter(None, (memory_label(lines, source) for source in SOURCES))),
        # In data coordinates; on the screen it follows the scales of the axes, where the line has slope one.
        rotation=math.degrees(math.atan2(y, x)),
        rotation_mode="anchor",
        transform_rotates_text=True,
        va="bottom",
        **_SMALL,
    )


def _points(panel: Axes, placed: Sequence[Point], scale: float) -> None:
    """Filled at the declared bytes, hollow at the counted ones, a thin line between those of one result."""
    size, alpha = (3.5, 0.5) if len(placed) > _CROWD else (7.0, 0.85)
    for series, look in looks(placed).items():
        members = [point for point in placed if point.series == series]
        xs, ys = joins(members)
        panel.plot(xs, [y / scale for y in ys], color=look.colour, linewidth=0.8, alpha=0.6)
        for level in LEVELS:
            xs = [point.intensity for point in members if point.level == level]
            ys = [point.tflops / scale for point in members if point.level == level]
            filled = level == "declared"
            panel.plot(
                xs,
                ys,
                MARKERS[look.marker],
                linestyle="none",
                color=look.colour,
                markerfacecolor=look.colour if filled else "white",
                markersize=size,
                alpha=alpha,
                zorder=4 if filled else 3,
            )
            if level == "l2":
                panel.plot(xs, ys, ".", color=look.colour, markersize=size / 2.5, zorder=3)


def _key(panel: Axes, placed: Sequence[Point], lines: Sequence[Roof]) -> None:
    """Legend entries: of every series, or of every kernel where those are too many; then what lines and hollow markers
    are."""
    drawn = looks(placed)
    entries = [(look.name, MARKERS[look.marker], look.colour) for look in drawn.values()]
    more = ""
    if len(entries) > MOST_ENTRIES and len({kernel for kernel, _ in drawn}) > 1:
        entries = list(dict.fromkeys((kernel, "o", look.colour) for (kernel, _), look in drawn.items()))
        more = "each marker a variant: see page, CSV"
    if len(entries) > MOST_ENTRIES:
        more = f"and {len(entries) - MOST_ENTRIES} more: see page, CSV"
    for name, marker, colour in entries[:MOST_ENTRIES]:
        panel.plot([], [], marker, linestyle="none", color=colour, markersize=7, alpha=0.85, label=name)
    if more:
        panel.plot([], [], linestyle="none", label=more)
    present = {point.level for point in placed}
    for source in SOURCES:
        if any(line.source == source for line in lines):
            rates = memory_label(lines, source) if "l2" in present else ""
            name = "\n".join(filter(None, [f"{source} roof", rates.removeprefix("measured ")]))
            panel.plot([], [], _STYLES[source], color=ROOF, linewidth=1.3, label=name)
    for level, name in LEVELS.items() if len(present) > 1 else ():
        if level in present:
            mark, face = (r"$\odot$" if level == "l2" else "o"), (ROOF if level == "declared" else "white")
            panel.plot([], [], marker=mark, linestyle="none", color=ROOF, markerfacecolor=face, label=name)


def _plain_x(panel: Axes) -> None:
    """Plain numbers on the intensity axis, more of them where it is short."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = panel.get_xlim()
    panel.xaxis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0) if high / low < 1000 else (1.0,), numticks=20))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    panel.xaxis.set_minor_formatter(NullFormatter())
