"""The roofline as one HTML file that needs no network: the points with what they are, to point at and to zoom into."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any

from runner.report.numbers import digits, time
from runner.report.roofline import SOURCES, Level, Point, Roof, roofs
from runner.report.roofline_layout import (
    LEVELS,
    ROOF,
    Span,
    compute_labels,
    joins,
    looks,
    rate_unit,
    ridge_height,
    ridge_labels,
    segment,
    spanned,
)

_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star")
"""Like the markers of the plot, in their order."""
_LEVELS: dict[Level, str] = {"declared": "", "dram": "-open", "l2": "-open-dot"}
_CONFIG = {
    "displaylogo": False,
    "responsive": True,
    # Newer versions have a button that uploads the chart: measurements stay where their owner put them.
    "showSendToCloud": False,
    "plotlyServerURL": "",
}
_MANY = 1000
"""Points beyond which the browser draws them with WebGL."""
_DASHES = {"datasheet": "solid", "measured": "dash"}


def page(placed: Sequence[Point], title: str, note: str = "") -> str:
    """The whole document, plotly.js within."""
    from plotly.io import to_html

    drawn = to_html(
        figure(placed, title, note),
        config=_CONFIG,
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
        "data": [*_roofs(lines, span, scale), *_points(placed, scale), *_key(placed)],
        "layout": {
            "title": {"text": html.escape(title) + under, "x": 0.5},
            "xaxis": _axis("arithmetic intensity, FLOP per byte", span.low, span.high),
            "yaxis": _axis(f"rate, {unit}", span.bottom / scale, span.top / scale),
            "annotations": _annotations(lines, span, scale),
            "shapes": _uprights(lines, span, scale),
            "hovermode": "closest",
            "hoverlabel": {"align": "left"},
            "legend": {"groupclick": "togglegroup", "tracegroupgap": 2},
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
    traces: list[dict[str, Any]] = []
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
                "legendgroup": name,
                **({} if traces else {"legendgrouptitle": {"text": "roofs"}}),
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
                "legendgroup": "ridges",
            }
        )
    return traces


def _spread(ends: Sequence[float], count: int = 40) -> list[float]:
    """Logarithmically spaced between the two ends."""
    low, high = ends
    return [low * (high / low) ** (index / (count - 1)) for index in range(count)]


def _points(placed: Sequence[Point], scale: float) -> list[dict[str, Any]]:
    """A trace a series and level, joined by a line; the legend's entry of a series shows and hides all of them."""
    traces: list[dict[str, Any]] = []
    titled: set[str] = set()
    several = len({point.kernel for point in placed}) > 1
    for series, look in looks(placed).items():
        members = [point for point in placed if point.series == series]
        shared: dict[str, Any] = {"legendgroup": html.escape(" ".join(series))}
        title = series[0] if several else "variants"
        if title not in titled:
            shared["legendgrouptitle"] = {"text": html.escape(title)}
            titled.add(title)
        for level in dict.fromkeys(point.level for point in members):
            own = [point for point in members if point.level == level]
            traces.append(
                {
                    "type": "scattergl" if len(placed) > _MANY else "scatter",
                    "mode": "markers",
                    "x": [point.intensity for point in own],
                    "y": [point.tflops / scale for point in own],
                    "text": [_told(point) for point in own],
                    "hovertemplate": "%{text}<extra></extra>",
                    "name": html.escape(series[1]),
                    "showlegend": level == "declared",
                    "marker": _marker(look.marker, level, look.colour),
                    **shared,
                }
            )
        xs, ys = joins(members)
        if xs:
            line = {"mode": "lines", "line": {"color": look.colour, "width": 1}, "hoverinfo": "skip"}
            gaps = {"x": _numbers(xs), "y": _numbers([y / scale for y in ys])}
            traces.append({"type": "scatter", "showlegend": False, **gaps, **line, **shared})
    return traces


def _numbers(values: Sequence[float]) -> list[float | None]:
    """JSON has no NaN: a gap is null."""
    return [None if math.isnan(value) else value for value in values]


def _marker(marker: int, level: Level, colour: str) -> dict[str, Any]:
    return {"symbol": _SYMBOLS[marker] + _LEVELS[level], "color": colour, "size": 9, "opacity": 0.85}


def _key(placed: Sequence[Point]) -> list[dict[str, Any]]:
    """Legend entries that say what hollow markers are; none where there are none."""
    present = [level for level in LEVELS if any(point.level == level for point in placed)]
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "x": [None],
            "y": [None],
            "name": LEVELS[level],
            "marker": _marker(0, level, ROOF),
            "legendgroup": f"level {level}",
            **({} if index else {"legendgrouptitle": {"text": "intensity by"}}),
        }
        for index, level in enumerate(present if len(present) > 1 else [])
    ]


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


def _uprights(lines: Sequence[Roof], span: Span, scale: float) -> list[dict[str, Any]]:
    """A dotted line from the axis to each ridge that has a label."""
    return [
        {
            "type": "line",
            "layer": "below",
            "x0": label.at,
            "x1": label.at,
            "y0": span.bottom / scale,
            "y1": ridge_height(lines, label) / scale,
            "line": {"color": ROOF, "width": 1, "dash": "dot"},
        }
        for label in ridge_labels(lines)
    ]
