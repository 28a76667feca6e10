"""How a roofline is laid out, whoever draws it: colours and markers, ends of the lines, what the axes show, labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from runner.report.numbers import digits
from runner.report.plots import MANY, MARKERS
from runner.report.roofline import Level, Point, Roof, Source

LEVELS: dict[Level, str] = {"declared": "declared bytes", "dram": "counted DRAM bytes", "l2": "counted L2 bytes"}
ROOF = "#444444"
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


def looks(placed: Sequence[Point]) -> dict[tuple[str, str], Look]:
    """A colour for each kernel and a marker for each of its variants; of a single kernel both for each variant."""
    kernels = list(dict.fromkeys(point.kernel for point in placed))
    found: dict[tuple[str, str], Look] = {}
    for kernel, variant in dict.fromkeys(point.series for point in placed):
        place = sum(known == kernel for known, _ in found)
        nth, name = (place, variant) if len(kernels) == 1 else (kernels.index(kernel), f"{kernel} {variant}")
        marker = (place + nth // len(MANY)) % len(MARKERS)
        found[kernel, variant] = Look(name, MANY[nth % len(MANY)], marker)
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


def joins(members: Sequence[Point]) -> tuple[list[float], list[float]]:
    """One line through the levels of each result, broken by NaN between results, FLOP per byte and TFLOP/s; nothing
    for those of one level."""
    results: dict[str, list[Point]] = {}
    for point in members:
        results.setdefault(point.experiment, []).append(point)
    xs: list[float] = []
    ys: list[float] = []
    for ends in results.values():
        if len(ends) > 1:
            xs += [*sorted(point.intensity for point in ends), math.nan]
            ys += [*(point.tflops for point in ends), math.nan]
    return xs, ys


def compute_labels(lines: Sequence[Roof]) -> list[Label]:
    """What stands on the flat roofs, at TFLOP/s: ``bfloat16, float16 989 TFLOP/s, measured 820, 805``."""
    flat = [line for line in lines if line.kind == "compute"]
    unit, scale = _unit(max((line.rate for line in flat), default=1.0))
    return _labels(flat, lambda line: line.rate, scale, f" {unit}")


def memory_label(lines: Sequence[Roof], source: Source) -> str:
    """What stands on the sloping roofs of a source: ``4800 GB/s``, ``measured read 4380, copy 4290 GB/s``."""
    own = [line for line in lines if line.kind == "memory" and line.source == source]
    rates = ", ".join(f"{line.name} {digits(line.rate)}".strip() for line in own)
    return f"{'measured ' if source == 'measured' else ''}{rates} GB/s" if own else ""


def ridge_labels(lines: Sequence[Roof]) -> list[Label]:
    """What stands at the ridge points, at FLOP per byte: ``ridge 14.0, measured 14.2``."""
    ridged = [line for line in lines if line.ridge]
    alone = len({line.name for line in ridged}) == 1
    labels = _labels([replace(line, name="") if alone else line for line in ridged], lambda line: line.ridge)
    return [Label(label.at, "\n".join(f"ridge {text}" for text in label.text.split("\n"))) for label in labels]


def ridge_height(lines: Sequence[Roof], label: Label) -> float:
    """TFLOP/s of the ridge that a label of ``ridge_labels`` stands at."""
    return max(line.rate for line in lines if line.ridge == label.at)


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
