"""The roofline as a picture: datasheet roofs solid, measured ones dashed, a colour per kernel, a marker per variant."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from runner.report.numbers import digits
from runner.report.plots import COLOURS, MARKERS, blank, finish, scale_log
from runner.report.roofline import SOURCES, Level, Point, Roof, roofs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEVELS: dict[Level, str] = {"declared": "declared bytes", "dram": "counted DRAM bytes", "l2": "counted L2 bytes"}
ROOF = "#444444"
_COLOURS = (*COLOURS, "#332288", "#117733", "#44aa99", "#ddcc77", "#cc6677", "#882255", "#999933", "#aa4499")
"""For kernels; after these they come again, with other markers."""
MOST_ENTRIES = 30
"""Series in the legend; a longer one would be higher than the plot."""
_CROWD = 400
"""Points beyond which they are drawn smaller and fainter."""
_STYLES = {"datasheet": "-", "measured": "--"}
_NEAR = 1.3
"""Labels of figures closer than this ratio would hide each other: they are stacked."""


@dataclass(frozen=True)
class Look:
    """How a series is drawn."""

    name: str
    colour: str
    marker: int
    """Index into the eight markers."""


@dataclass(frozen=True)
class Label:
    """Text at a height or at an intensity."""

    at: float
    text: str


@dataclass(frozen=True)
class Span:
    """What the axes show."""

    low: float
    """FLOP per byte."""
    high: float
    bottom: float
    """TFLOP/s."""
    top: float


def plot(placed: Sequence[Point], title: str, note: str = "") -> Figure:
    """The figure; ``note`` stands under the title. The points must have at least one roof."""
    lines = roofs(placed)
    span = spanned(placed, lines)
    unit, scale = rate_unit(placed)
    figure = blank(10.4, 6.2)
    panel = figure.subplots()
    panel.set(xscale="log", xlim=(span.low, span.high), ylim=(span.bottom / scale, span.top / scale))
    _roofs(panel, lines, span, scale)
    _points(panel, placed, scale)
    _key(panel, placed, lines)
    scale_log(panel)
    _plain_x(panel)
    panel.set(xlabel="arithmetic intensity, FLOP per byte", ylabel=f"rate, {unit}")
    finish(figure, panel, f"{title}\n{note}" if note else title)
    return figure


def looks(placed: Sequence[Point]) -> dict[tuple[str, str], Look]:
    """A colour for each kernel and a marker for each of its variants; of a single kernel both for each variant."""
    kernels = list(dict.fromkeys(point.kernel for point in placed))
    found: dict[tuple[str, str], Look] = {}
    for kernel, variant in dict.fromkeys(point.series for point in placed):
        place = sum(known == kernel for known, _ in found)
        nth, name = (place, variant) if len(kernels) == 1 else (kernels.index(kernel), f"{kernel} {variant}")
        marker = (place + nth // len(_COLOURS)) % len(MARKERS)
        found[kernel, variant] = Look(name, _COLOURS[nth % len(_COLOURS)], marker)
    return found


def spanned(placed: Sequence[Point], lines: Sequence[Roof]) -> Span:
    """Room for every point and every ridge, and for the labels at the right end of the flat roofs."""
    spots = [point.intensity for point in placed]
    ridges = [line.ridge for line in lines if line.ridge]
    low = min(spots + ridges) / 3
    high = max(3 * max(spots), *(10 * ridge for ridge in ridges)) if ridges else 3 * max(spots)
    rates = [point.tflops for point in placed]
    flat = [line.rate for line in lines if line.kind == "compute"]
    slopes = [line.rate for line in lines if line.kind == "memory"]
    tops = [*rates, *flat, *([] if flat else [high * slope * 1e-3 for slope in slopes])]
    bottom = min([*rates, *(low * slope * 1e-3 for slope in slopes)])
    return Span(low, high, bottom / 2, max(tops) * 2.5)


def rate_unit(placed: Sequence[Point]) -> tuple[str, float]:
    """The unit that suits the points, and its size in TFLOP/s."""
    return _unit(max(point.tflops for point in placed))


def segment(line: Roof, lines: Sequence[Roof], span: Span) -> tuple[list[float], list[float]]:
    """The two ends of a roof, FLOP per byte and TFLOP/s: of memory up to the highest flat roof, of its own source where
    that has one, of compute from its ridge on."""
    if line.kind == "compute":
        return [min(line.ridge or span.low, span.high), span.high], [line.rate, line.rate]
    tops = [other for other in lines if other.kind == "compute"]
    flat = [other.rate for other in tops if other.source == line.source] or [other.rate for other in tops]
    end = min(span.high, 1e3 * max(flat) / line.rate) if flat else span.high
    return [span.low, end], [span.low * line.rate * 1e-3, end * line.rate * 1e-3]


def compute_labels(lines: Sequence[Roof]) -> list[Label]:
    """What stands on the flat roofs, at TFLOP/s: ``bfloat16, float16 989 TFLOP/s, measured 820, 805``."""
    flat = [line for line in lines if line.kind == "compute"]
    unit, scale = _unit(max((line.rate for line in flat), default=1.0))
    return _labels(flat, lambda line: line.rate, scale, f" {unit}")


def memory_label(lines: Sequence[Roof]) -> str:
    """What stands on the sloping roofs: ``4800 GB/s, measured: copy 4290 GB/s``."""
    datasheet = [f"{digits(line.rate)} GB/s" for line in lines if line.kind == "memory" and line.source == "datasheet"]
    measured = [line for line in lines if line.kind == "memory" and line.source == "measured"]
    shown = ", ".join(f"{line.name} {digits(line.rate)}".strip() for line in measured)
    return ", ".join([*datasheet, *([f"measured: {shown} GB/s"] if measured else [])])


def ridge_labels(lines: Sequence[Roof]) -> list[Label]:
    """What stands at the ridge points, at FLOP per byte: ``ridge 14.0, measured 14.2``."""
    ridged = [line for line in lines if line.ridge]
    alone = len({line.name for line in ridged}) == 1
    labels = _labels([replace(line, name="") if alone else line for line in ridged], lambda line: line.ridge)
    return [Label(label.at, "\n".join(f"ridge {text}" for text in label.text.split("\n"))) for label in labels]


def _labels(flat: Sequence[Roof], figure: Callable[[Roof], float], scale: float = 1.0, unit: str = "") -> list[Label]:
    """Types whose datasheet says the same share a label; at the datasheet's figure, or the measured one without it."""
    measured = {line.name: line for line in flat if line.source == "measured"}
    datasheet = {line.name: line for line in flat if line.source == "datasheet"}
    alike: dict[str, list[Roof]] = {}
    for line in datasheet.values():
        alike.setdefault(digits(figure(line) / scale), []).append(line)
    found = []
    for text, group in alike.items():
        seen = dict.fromkeys(digits(figure(measured[line.name]) / scale) for line in group if line.name in measured)
        names = ", ".join(line.name for line in group)
        beside = f", measured {', '.join(seen)}" if seen else ""
        found.append(Label(figure(group[0]), f"{names} {text}{unit}{beside}".strip()))
    for name, line in measured.items():
        if name not in datasheet:
            found.append(Label(figure(line), f"{name} measured {digits(figure(line) / scale)}{unit}".strip()))
    return _stacked(found)


def _stacked(labels: Sequence[Label]) -> list[Label]:
    """Those that would hide each other as one label of several lines, the highest first."""
    found: list[Label] = []
    for label in sorted(labels, key=lambda label: -label.at):
        if found and found[-1].at / label.at < _NEAR:
            found[-1] = Label(found[-1].at, f"{found[-1].text}\n{label.text}")
        else:
            found.append(label)
    return found


def _unit(tflops: float) -> tuple[str, float]:
    return ("TFLOP/s", 1.0) if tflops >= 0.1 else ("GFLOP/s", 1e-3)


def _roofs(panel: Axes, lines: Sequence[Roof], span: Span, scale: float) -> None:
    """Lines, ridge points and what they are called."""
    backed = {"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.5}
    small: dict[str, Any] = {"fontsize": 8, "color": ROOF, "zorder": 5, "bbox": backed}
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
            **small,
        )
    for label in ridge_labels(lines):
        roof = max(line.rate for line in lines if line.kind == "compute" and math.isclose(line.ridge, label.at))
        panel.vlines(label.at, span.bottom / scale, roof / scale, ROOF, ":", linewidth=0.8, alpha=0.7, zorder=0)
        panel.annotate(
            label.text,
            (label.at, span.bottom / scale),
            (2, 4),
            textcoords="offset points",
            rotation=90,
            va="bottom",
            **small,
        )
    slopes = [line.rate for line in lines if line.kind == "memory"]
    if slopes:
        x = 1.15 * span.low
        y = 1.12 * x * max(slopes) * 1e-3 / scale
        panel.text(
            x,
            y,
            memory_label(lines),
            # In data coordinates; on the screen it follows the scales of the axes, where the line has slope one.
            rotation=math.degrees(math.atan2(y, x)),
            rotation_mode="anchor",
            transform_rotates_text=True,
            va="bottom",
            **small,
        )


def _points(panel: Axes, placed: Sequence[Point], scale: float) -> None:
    """Filled at the declared bytes, hollow at the counted ones, a thin line between those of one result."""
    size, alpha = (3.5, 0.5) if len(placed) > _CROWD else (7.0, 0.85)
    for series, look in looks(placed).items():
        members = [point for point in placed if point.series == series]
        for ends in _joined(members):
            xs, ys = [point.intensity for point in ends], [point.tflops / scale for point in ends]
            panel.plot(xs, ys, color=look.colour, linewidth=0.8, alpha=0.6)
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


def _joined(members: Sequence[Point]) -> list[list[Point]]:
    """The points of each result that has more than one."""
    found: dict[str, list[Point]] = {}
    for point in members:
        found.setdefault(point.experiment, []).append(point)
    return [sorted(ends, key=lambda point: point.intensity) for ends in found.values() if len(ends) > 1]


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
    for source in SOURCES:
        if any(line.source == source for line in lines):
            panel.plot([], [], _STYLES[source], color=ROOF, linewidth=1.3, label=f"{source} roof")
    present = {point.level for point in placed}
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
