"""Plots of a sweep: time and rate against every swept axis.

matplotlib is imported when the first plot is made; figures are drawn straight to files, without pyplot.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from runner.report.axes import MISSING, axes, columns, long_name, value
from runner.report.numbers import digits, full_rate
from runner.report.roofline import access_of
from runner.result.model import Result, Status
from runner.result.names import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_LINES = 10
"""Lines in one plot; beyond that the other axes are held at their largest value."""
DECADE = 10.0
Lines = dict[str, list[Result]]
"""Legend entry → its results."""
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#000000")
MANY = (*COLOURS, "#332288", "#117733", "#44aa99", "#ddcc77", "#cc6677", "#882255", "#999933", "#aa4499")
"""Twice as many as there are markers, where what is drawn may be more than eight: each looks unlike all others."""
MARKERS = "osD^vPX*"
_STYLES = ("-", "--", "-.", ":")
_ROOF = "#444444"


def write_plots(results: Sequence[Result], folder: Path, swept: Sequence[str] = ()) -> list[Path]:
    """Writes PNG files and returns their paths. Families, GPUs and backends never share a plot."""
    groups: dict[tuple[str, str, str], list[Result]] = {}
    for result in results:
        if result.status is Status.PASSED and result.metrics.get("time_us", 0.0) > 0:
            groups.setdefault((result.kernel, result.backend, result.gpu), []).append(result)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for (kernel, backend, gpu), members in groups.items():
        where = gpu or backend
        stem = re.sub(r"[^\w.-]+", "_", f"{kernel}_{where}")
        title = f"{kernel} on {where}" + (" (CPU)" if backend == "host" else "")
        for axis in axes(members, swept):
            path = folder / f"{stem}_{re.sub(r'[^A-Za-z0-9_.-]+', '_', axis)}.png"
            against(members, axis, title, swept).savefig(path, dpi=130)
            written.append(path)
    return written


def against(results: Sequence[Result], axis: str, title: str, swept: Sequence[str] = ()) -> Figure:
    """Time and rate over ``axis``: one line per variant and combination of the other things that vary."""
    shown, held, lines = _split(results, axis, swept)
    rate, label = _rate(shown)
    figure = blank(10.4 if rate else 6.0, 4.6)
    panels = figure.subplots(1, 2 if rate else 1, squeeze=False)[0]
    unit, scale = _time_unit(shown)
    _draw(panels[0], lines, axis, "time_us", scale)
    panels[0].set_ylabel(f"time, {unit}")
    if rate:
        _draw(panels[1], lines, axis, rate, 1.0)
        panels[1].set_ylabel(label)
        if rate == "gbps":
            _levels(panels[1], shown)
    for panel in panels:
        panel.set_xlabel(", ".join(filter(None, [axis, long_name(results, axis)])))
    finish(figure, panels[-1], title + (f" ({held})" if held else ""))
    return figure


def blank(width: float, height: float) -> Figure:
    """A figure of so many inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def finish(figure: Figure, panel: Axes, title: str, *others: Axes) -> None:
    """Title, grid, and a legend of ``panel`` and ``others`` beside the panels, where it hides nothing."""
    figure.suptitle(title, fontsize=11)
    for each in figure.axes:
        each.grid(True, which="major", alpha=0.3)
        each.spines[["top", "right"]].set_visible(False)
    entries = [entry for each in (panel, *others) for entry in zip(*each.get_legend_handles_labels(), strict=True)]
    handles, labels = [handle for handle, _ in entries], [label for _, label in entries]
    figure.legend(handles, labels, loc="outside right upper", fontsize=8, frameon=False)


def _split(results: Sequence[Result], axis: str, swept: Sequence[str]) -> tuple[list[Result], str, Lines]:
    """The results to draw, what was held fixed to keep the plot readable, and the lines."""
    others = [key for key in columns(results, swept) if key != axis and not _moves_with(results, axis, key)]
    shown, held = list(results), []
    for key in others:
        if len(_by_variant(shown, others)) <= MOST_LINES:
            break
        values = [v for v in (value(r, key) for r in shown) if v is not MISSING]
        numeric = all(isinstance(v, (int, float)) for v in values)
        fixed = max(values) if numeric else values[-1]
        shown = [r for r in shown if value(r, key) == fixed]
        held.append(f"{key}={plain(fixed)}")
    return shown, ", ".join(held), _by_variant(shown, others)


def _moves_with(results: Sequence[Result], axis: str, key: str) -> bool:
    """True when each value of ``axis`` comes with one value of ``key``: then ``key`` is no line of its own."""
    seen: dict[object, object] = {}
    return all(seen.setdefault(value(r, axis), value(r, key)) == value(r, key) for r in results)


def _by_variant(results: Sequence[Result], others: Sequence[str] = ()) -> Lines:
    """Results by variant and the values of ``others``, where those still differ."""
    varying = [key for key in others if len({value(r, key) for r in results}) > 1]
    lines: Lines = {}
    for result in results:
        extra = [f"{key}={plain(value(result, key))}" for key in varying]
        lines.setdefault(" ".join([result.variant, *extra]), []).append(result)
    return lines


def _draw(panel: Axes, lines: Lines, axis: str, metric: str, scale: float) -> None:
    """One line per entry, a colour per variant; logarithmic where the values span more than a decade."""
    all_x: list[float] = []
    all_y: list[float] = []
    variants = list(dict.fromkeys(members[0].variant for members in lines.values()))
    drawn: dict[str, int] = {}
    for who, members in lines.items():
        points = sorted((float(value(r, axis)), r.metrics[metric] / scale) for r in members if metric in r.metrics)
        xs, ys = [x for x, _ in points], [y for _, y in points]
        variant = members[0].variant
        drawn[variant] = drawn.get(variant, -1) + 1
        panel.plot(
            xs,
            ys,
            label=who,
            color=MANY[variants.index(variant) % len(MANY)],
            marker=MARKERS[(variants.index(variant) + drawn[variant]) % len(MARKERS)],
            linestyle=_STYLES[drawn[variant] % len(_STYLES)],
            markersize=5,
            linewidth=1.4,
        )
        all_x += xs
        all_y += ys
    scale_x(panel, sorted(set(all_x)))
    if metric == "time_us" and min(all_y) > 0 and max(all_y) / min(all_y) > DECADE:
        scale_log(panel)
    else:
        panel.set_ylim(0, 1.08 * max(all_y))


def scale_x(panel: Axes, ticks: Sequence[float]) -> None:
    """Powers of two and what spans more than a decade go on a logarithmic axis, labelled at the points."""
    if len(ticks) < 2 or ticks[0] <= 0:
        return
    binary = all(x == int(x) and int(x) & (int(x) - 1) == 0 for x in ticks)
    if not (binary or ticks[-1] / ticks[0] > DECADE):
        return
    panel.set_xscale("log", base=2 if binary else 10)
    if len(ticks) <= 9:
        panel.set_xticks(ticks, [tick(x) for x in ticks])
        panel.minorticks_off()


def scale_log(panel: Axes) -> None:
    """A logarithmic y axis with plain numbers on it."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    panel.set_yscale("log")
    low, high = panel.get_ylim()
    subs = (1.0, 2.0, 5.0) if high / low < 1000 else (1.0,)
    panel.yaxis.set_major_locator(LogLocator(10, subs=subs))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    panel.yaxis.set_minor_formatter(NullFormatter())


def tick(x: float) -> str:
    """``32k`` for 32768 (lengths are counted in 1024s), other numbers as they are."""
    return f"{int(x) // 1024}k" if x >= 1024 and x % 1024 == 0 else plain(x)


def _levels(panel: Axes, results: Sequence[Result]) -> None:
    """The peak and the ceilings as level lines, where the figures come near enough for them to fit."""
    highest = max(r.metrics.get("gbps", 0.0) for r in results)
    kinds: dict[str, list[Result]] = {}
    for result in results:
        if "pct_ceiling_bandwidth" in result.metrics:
            kinds.setdefault(f"{access_of(result)} ceiling".strip(), []).append(result)
    lines = [("peak", results, "pct_peak_bandwidth", "-")]
    lines += [(name, kinds[name], "pct_ceiling_bandwidth", ":") for name in sorted(kinds)]
    for name, members, percent, style in lines:
        level = _implied(members, "gbps", percent)
        if level and level < 3 * highest:
            panel.set_ylim(0, max(panel.get_ylim()[1], 1.08 * level))
            panel.axhline(level, color=_ROOF, linestyle=style, linewidth=1.1, label=f"{name}: {digits(level)} GB/s")


def _rate(results: Sequence[Result]) -> tuple[str, str]:
    """The metric of the second panel and its label: bandwidth, or FLOP rate where there is no byte count."""
    for metric, label in (("gbps", "bandwidth, GB/s"), ("tflops", "rate, TFLOP/s")):
        if any(metric in r.metrics for r in results):
            return metric, label
    return "", ""


def _time_unit(results: Sequence[Result]) -> tuple[str, float]:
    """The unit that suits the middle of them, and its size in microseconds."""
    middle = sorted(r.metrics["time_us"] for r in results)[len(results) // 2]
    return ("s", 1e6) if middle >= 1e6 else ("ms", 1e3) if middle >= 1e3 else ("µs", 1.0)


def _implied(results: Sequence[Result], rate: str, percent: str) -> float:
    """The full rate that the figures are percentages of; 0 when unknown."""
    return max((float(f"{full_rate(r.metrics, rate, percent):.3g}") for r in results), default=0.0)
