"""The plot of a monitored run: what was sampled, over time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from runner.result.model import Result

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

_TABLE = "_monitor.csv"
_CLOCK = "sm_clock_mhz"
_OF_A_GPU = {
    "power_usage_watts": "power, W",
    _CLOCK: "SM clock, MHz",
    "memory_clock_mhz": "memory clock, MHz",
    "temperature_c": "temperature, °C",
    "memory_usage_megabytes": "memory, MB",
    "utilization_percentage": "kernel running, %",
}
"""Series → label of its panel, which has a line for each GPU."""
_OF_THE_MACHINE = {
    "cpu_utilization_percentage": "CPU, %",
    "system_memory_usage_megabytes": "host memory, MB",
}
_COLOURS = ("#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#000000", "#882255")
_THROTTLED = "#d55e00"
_FEW = 60
"""With fewer samples each is marked."""
Points = list[list[float]]
"""``[[seconds, value], …]``."""


def write(result: Result, folder: Path) -> list[str]:
    """Draws the sampled series beside their table, and returns the file's name; nothing where nothing was sampled."""
    tables = [name for name in result.profile.artifacts if name.endswith(_TABLE)]
    if not tables or not result.profile.series:
        return []
    from matplotlib.figure import Figure

    series = {name.partition("/")[2]: points for name, points in result.profile.series.items()}
    gpus = sorted({int(found[1]) for name in series if (found := re.match(r"gpu_(\d+)_", name))})
    panels = [(label, [(f"GPU {gpu}", f"gpu_{gpu}_{name}") for gpu in gpus]) for name, label in _OF_A_GPU.items()]
    panels += [(label, [("", name)]) for name, label in _OF_THE_MACHINE.items()]
    shown = [(label, lines) for label, lines in panels if any(name in series for _, name in lines)]
    figure = Figure(figsize=(8.0, 0.8 + 1.4 * len(shown)), layout="constrained")
    axes = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    for panel, (label, lines) in zip(axes, shown, strict=True):
        _draw(panel, label, {who: series[name] for who, name in lines if name in series})
        if label == _OF_A_GPU[_CLOCK]:
            _shade(panel, [series.get(f"gpu_{gpu}_throttled", []) for gpu in gpus])
    axes[-1].set_xlabel("time, s")
    handles: dict[str, Artist] = {}
    for panel in axes:
        for handle, who in zip(*panel.get_legend_handles_labels(), strict=True):
            if who == "throttled" or len(gpus) > 1:
                handles.setdefault(who, handle)
    if handles:
        figure.legend(list(handles.values()), list(handles), loc="outside right upper", fontsize=8, frameon=False)
    figure.suptitle(f"{result.kernel} {result.variant}" + (f" on {result.gpu}" if result.gpu else ""), fontsize=11)
    name = tables[0].removesuffix(".csv") + ".png"
    figure.savefig(folder / name, dpi=130)
    return [name]


def _draw(panel: Axes, label: str, lines: Mapping[str, Points]) -> None:
    for index, (who, points) in enumerate(lines.items()):
        marker = "." if len(points) < _FEW else ""
        times, values = zip(*points, strict=True)
        panel.plot(times, values, color=_COLOURS[index % len(_COLOURS)], marker=marker, label=who)
    panel.set_ylabel(label, fontsize=9)
    panel.tick_params(labelsize=8)
    panel.grid(True, alpha=0.3)
    panel.spines[["top", "right"]].set_visible(False)
    panel.ticklabel_format(axis="y", useOffset=False, style="plain")
    # From zero, or a flicker of a watt fills the panel.
    highest = max(value for points in lines.values() for _, value in points)
    panel.set_ylim(0, 105 if label.endswith("%") else 1.1 * highest or 1)


def _shade(panel: Axes, throttled: Sequence[Points]) -> None:
    """Marks the time up to each sample at which some GPU was throttled."""
    marked: dict[float, bool] = {}
    for points in throttled:
        for at, value in points:
            marked[at] = marked.get(at, False) or value > 0
    before = 0.0
    for at, value in sorted(marked.items()):
        if value:
            panel.axvspan(before, at, color=_THROTTLED, alpha=0.2, linewidth=0, label="throttled")
        before = at
