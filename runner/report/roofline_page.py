"""The roofline as one HTML file that needs no network: the points with what they are, to point at and to zoom into."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any

from runner.report.numbers import digits, time
from runner.report.roofline import SOURCES, Level, Point, Roof, roofs
from runner.report.roofline_plot import (
    LEVELS,
    ROOF,
    Span,
    compute_labels,
    looks,
    rate_unit,
    ridge_labels,
    segment,
    spanned,
)

_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star")
"""Like the markers of the plot, in their order."""
_LEVELS: dict[Level, str] = {"declared": "", "dram": "-open", "l2": "-open-dot"}
_DASHES = {"datasheet": "solid", "measured": "dash"}


def page(placed: Sequence[Point], title: str, note: str = "") -> str:
    """The whole document, plotly.js within."""
    from plotly.io import to_html

    drawn = to_html(
        figure(placed, title, note),
        config={"displaylogo": False, "responsive": True},
        include_plotlyjs=True,
        full_html=False,
        default_height="96vh",
        div_id="roofline",
        validate=False,
    )
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title>'
    return f"<!doctype html>\n<html><head>{head}</head><body>\n{drawn}\n</body></html>\n"


def figure(placed: Sequence[Point], title: str, note: str = "") -> dict[str, Any]:
    """Traces and layout, as plotly.js takes them."""
    lines = roofs(placed)
    span = spanned(placed, lines)
    unit, scale = rate_unit(placed)
    under = f"<br><sup>{html.escape(note)}</sup>" if note else ""
    return {
        "data": [*_roofs(lines, span, scale), *_points(placed, scale)],
        "layout": {
            "title": {"text": html.escape(title) + under, "x": 0.5},
            "xaxis": _axis("arithmetic intensity, FLOP per byte", span.low, span.high),
            "yaxis": _axis(f"rate, {unit}", span.bottom / scale, span.top / scale),
            "annotations": _annotations(lines, span, scale),
            "hovermode": "closest",
            "hoverlabel": {"align": "left"},
            "legend": {"groupclick": "toggleitem"},
            "plot_bgcolor": "white",
            "margin": {"t": 70, "r": 30},
        },
    }


def _axis(title: str, low: float, high: float) -> dict[str, Any]:
    return {
        "title": {"text": title},
        "type": "log",
        "range": [math.log10(low), math.log10(high)],
        "dtick": "D2" if high / low < 1000 else 1,
        "tickformat": "~g",
        "gridcolor": "#dddddd",
        "linecolor": "black",
        "zeroline": False,
    }


def _roofs(lines: Sequence[Roof], span: Span, scale: float) -> list[dict[str, Any]]:
    """A trace a roof, one for the ridges."""
    traces = []
    for line in lines:
        xs, ys = segment(line, lines, span)
        unit = "GB/s" if line.kind == "memory" else "TFLOP/s"
        name = f"{line.source} {line.name}".strip() + f" {digits(line.rate)} {unit}"
        ridge = f"<br>ridge at {digits(line.ridge)} FLOP/byte" if line.ridge else ""
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                # A line can only be pointed at where it has a point.
                "x": _spread(xs),
                "y": [y / scale for y in _spread(ys)],
                "name": name,
                "line": {"color": ROOF, "dash": _DASHES[line.source], "width": 1.5},
                "hovertemplate": f"{html.escape(name)}{ridge}<extra></extra>",
                "legendgroup": "roofs",
                "legendgrouptitle": {"text": "roofs"},
            }
        )
    ridges = [line for line in lines if line.ridge]
    if ridges:
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": [line.ridge for line in ridges],
                "y": [line.rate / scale for line in ridges],
                "text": [f"ridge {digits(line.ridge)} FLOP/byte, {line.source} {line.name}" for line in ridges],
                "name": "ridges",
                "marker": {
                    "color": ROOF,
                    "size": 7,
                    "symbol": ["circle" if line.source == "datasheet" else "circle-open" for line in ridges],
                },
                "hovertemplate": "%{text}<extra></extra>",
                "legendgroup": "roofs",
            }
        )
    return traces


def _spread(ends: Sequence[float], count: int = 40) -> list[float]:
    """Logarithmically spaced between the two ends."""
    low, high = ends
    return [low * (high / low) ** (index / (count - 1)) for index in range(count)]


def _points(placed: Sequence[Point], scale: float) -> list[dict[str, Any]]:
    """A trace a series and level; the counted levels' joined with the declared one by a line."""
    traces: list[dict[str, Any]] = []
    kernels = len({point.kernel for point in placed})
    for series, look in looks(placed).items():
        members = [point for point in placed if point.series == series]
        group = {"legendgroup": series[0] if kernels > 1 else "variants"}
        group_title = {"legendgrouptitle": {"text": series[0] if kernels > 1 else "variants"}}
        for level in dict.fromkeys(point.level for point in members):
            own = [point for point in members if point.level == level]
            of_level = "" if level == "declared" else f", {LEVELS[level]}"
            traces.append(
                {
                    "type": "scattergl" if len(placed) > 1000 else "scatter",
                    "mode": "markers",
                    "x": [point.intensity for point in own],
                    "y": [point.tflops / scale for point in own],
                    "text": [_told(point) for point in own],
                    "hovertemplate": "%{text}<extra></extra>",
                    "name": html.escape(series[1] + of_level),
                    "marker": {
                        "symbol": _SYMBOLS[look.marker] + _LEVELS[level],
                        "color": look.colour,
                        "size": 9,
                        "opacity": 0.85,
                    },
                    **group,
                    **group_title,
                }
            )
        joined = _joins(members, scale)
        if joined["x"]:
            style = {
                "mode": "lines",
                "line": {"color": look.colour, "width": 1},
                "hoverinfo": "skip",
                "showlegend": False,
            }
            traces.append({"type": "scatter", **joined, **style, **group})
    return traces


def _joins(members: Sequence[Point], scale: float) -> dict[str, list[float | None]]:
    """One broken line through the levels of each result."""
    results: dict[str, list[Point]] = {}
    for point in members:
        results.setdefault(point.experiment, []).append(point)
    xs: list[float | None] = []
    ys: list[float | None] = []
    for ends in results.values():
        if len(ends) > 1:
            ordered = sorted(ends, key=lambda point: point.intensity)
            xs += [*(point.intensity for point in ordered), None]
            ys += [*(point.tflops / scale for point in ordered), None]
    return {"x": xs, "y": ys}


def _told(point: Point) -> str:
    """What a point says of itself."""
    params = ", ".join(f"{name}={text}" for name, text in point.params.items())
    lines = [
        f"<b>{html.escape(' '.join(point.series))}</b>",
        html.escape(params),
        f"time {time(point.time_us)}",
        f"{digits(point.tflops)} TFLOP/s {html.escape(point.datasheet.compute)}".strip(),
        f"{digits(point.gbps)} GB/s, {digits(point.intensity)} FLOP/byte ({LEVELS[point.level]})",
    ]
    for source in SOURCES:
        own = point.under(source)
        shares = []
        if own.gbps:
            access = f" {own.memory}" if own.memory else ""
            shares.append(f"{100 * point.gbps / own.gbps:.1f} % of {digits(own.gbps)} GB/s{access}")
        if own.tflops:
            shares.append(f"{100 * point.tflops / own.tflops:.1f} % of {digits(own.tflops)} TFLOP/s")
        if shares:
            lines.append(f"{source}: {', '.join(shares)}")
    return "<br>".join(filter(None, lines))


def _annotations(lines: Sequence[Roof], span: Span, scale: float) -> list[dict[str, Any]]:
    """The names of the flat roofs at their right end, and of the ridges above the axis."""
    small = {"showarrow": False, "font": {"size": 11, "color": ROOF}}
    found: list[dict[str, Any]] = [
        {
            "x": math.log10(span.high),
            "y": math.log10(label.at / scale),
            "text": html.escape(label.text).replace("\n", "<br>"),
            "xanchor": "right",
            "yanchor": "bottom",
            **small,
        }
        for label in compute_labels(lines)
    ]
    found += [
        {
            "x": math.log10(label.at),
            "y": 0,
            "yref": "paper",
            "text": html.escape(label.text).replace("\n", "<br>"),
            "textangle": -90,
            "xanchor": "left",
            "yanchor": "bottom",
            **small,
        }
        for label in ridge_labels(lines)
    ]
    return found
