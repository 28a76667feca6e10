"""A comparison as a plot: each experiment's effect with its interval over the noise floor, coloured by verdict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from runner.report.compared import Row, rows
from runner.report.plots import blank
from runner.verdict.model import Comparison, Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 40
"""Experiments drawn: the worst, then the best."""
COLOURS = {
    Verdict.SLOWER: "#d55e00",
    Verdict.FASTER: "#009e73",
    Verdict.SAME: "#0072b2",
    Verdict.AMBIGUOUS: "#e69f00",
}
WIDEST_LABEL = 60


def write_plot(comparison: Comparison, path: Path) -> bool:
    """Writes a PNG; False, and nothing, where no pair has an effect."""
    drawn = [row for row in rows(comparison) if row.judged.effect is not None]
    if not drawn:
        return False
    shown = sorted(drawn[:MOST], key=lambda row: row.judged.effect or 0.0)
    figure = blank(9.0, 1.6 + 0.28 * len(shown))
    panel = figure.subplots()
    for height, row in enumerate(shown):
        _draw(panel, height, row)
    panel.axvline(0, color="#444444", linewidth=0.8)
    panel.set_yticks(range(len(shown)), [_label(row) for row in shown], fontsize=8)
    panel.set_ylim(-0.7, len(shown) - 0.3)
    panel.set_xlabel("change of the time, % (right of 0: slower), with its 95 % interval; grey: noise floor")
    panel.grid(axis="x", alpha=0.3)
    left = f", {len(drawn) - MOST} more not drawn" if len(drawn) > MOST else ""
    panel.set_title(f"{comparison.candidate} against {comparison.baseline}{left}", fontsize=9)
    present = [verdict for verdict in COLOURS if any(row.judged.verdict is verdict for row in shown)]
    for verdict in present:
        panel.plot([], [], "o", color=COLOURS[verdict], label=verdict.value)
    figure.legend(fontsize=8, loc="outside lower center", ncols=len(present), frameon=False)
    figure.savefig(path, dpi=130)
    return True


def _draw(panel: Axes, height: int, row: Row) -> None:
    one = row.judged
    assert one.effect is not None
    colour = COLOURS[one.verdict]
    if one.floor is not None:
        panel.barh(height, 200 * one.floor, left=-100 * one.floor, height=0.8, color="#e0e0e0", zorder=0)
    if one.low is not None and one.high is not None:
        panel.plot([100 * one.low, 100 * one.high], [height, height], color=colour, linewidth=1.6)
    panel.plot([100 * one.effect], [height], "o", color=colour, markersize=4)


def _label(row: Row) -> str:
    text = row.cells[0]
    return text if len(text) <= WIDEST_LABEL else f"{text[: WIDEST_LABEL - 1]}…"
