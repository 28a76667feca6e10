"""Files of one estimate: its page, the operators, memory over the context, tokens per second over the batch, and theory
beside measurement where there is one."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from runner.estimate.curves import BatchPoint, MemoryPoint, over_batch, over_context
from runner.estimate.memory import crossover_context
from runner.estimate.model import Estimate
from runner.estimate.times import operator_bound, operator_s
from runner.report import theory
from runner.report.estimate import Page, text
from runner.report.experiment import REPORT
from runner.report.kernels import kernels_csv
from runner.report.plots import COLOURS, MARKERS, blank, finish, scale_x, tick
from runner.result.document import write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OPERATORS = "operators.csv"
KERNELS = "kernels.csv"
MEMORY = "memory_over_context.png"
TOKENS = "tokens_over_batch.png"
_COLUMNS = (
    "count", "flops", "weight_bytes", "kv_bytes", "activation_bytes", "link_bytes", "compute", "intensity",
)  # fmt: skip
_STACK = ("#0072b2", "#d55e00", "#009e73", "#bbbbbb")
_GB = 1e9
_TICKS = 9
"""Labels of an axis, at most."""


def write(made: Estimate, page: Page, folder: Path) -> list[str]:
    """Writes them into ``folder`` and returns their names. Raises ``DocumentError`` where it cannot be written."""
    write_text(folder / REPORT, text(page))
    write_text(folder / OPERATORS, operators_csv(made))
    memory_figure(made, over_context(made)).savefig(folder / MEMORY, dpi=110)
    written = [REPORT, OPERATORS, MEMORY]
    if made.kernels:
        write_text(folder / KERNELS, kernels_csv(made.kernels))
        written.append(KERNELS)
    else:  # kernels were measured at one batch
        tokens_figure(made, over_batch(made)).savefig(folder / TOKENS, dpi=110)
        written.append(TOKENS)
    if made.compared:
        write_text(folder / theory.TABLE, theory.table_csv(made))
        written.append(theory.TABLE)
    return written


def operators_csv(made: Estimate) -> str:
    """A line per phase and operator of one GPU; times in microseconds, without the fixed ones, on paper: none where the
    machine has no datasheet."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["phase", "operator", *_COLUMNS, "bound", "time_us", "level"])
    for phase in (made.prefill, made.decode):
        for one in phase.operators:
            rated = made.machine.rated
            bound = operator_bound(one, made.machine, made.on_paper) if rated else ""
            time_us = 1e6 * operator_s(one, made.machine, made.on_paper) if rated else ""
            writer.writerow(
                [phase.name, one.name, *(getattr(one, name) for name in _COLUMNS), bound, time_us, made.on_paper.level]
            )
    return stream.getvalue()


def memory_figure(made: Estimate, points: Sequence[MemoryPoint]) -> Figure:
    """Memory of one GPU over the tokens of each sequence, its parts stacked, with the limit."""
    drawn = blank(8.0, 4.6)
    panel = drawn.subplots()
    xs = [point.context for point in points]
    parts = {
        "weights": [point.memory.weights / _GB for point in points],
        "KV cache": [point.memory.kv / _GB for point in points],
        "activations": [point.memory.activations / _GB for point in points],
        "reserve": [point.memory.reserve / _GB for point in points],
    }
    panel.stackplot(xs, *parts.values(), labels=list(parts), colors=_STACK, alpha=0.8)
    limit = made.memory.available / _GB
    panel.axhline(limit, color="#444444", linewidth=1.2, label=f"may be used: {limit:.0f} GB")
    passed = crossover_context(made.architecture, made.work, made.parallel)
    if passed is not None and xs[0] <= passed <= xs[-1]:
        panel.axvline(passed, color="#444444", linestyle=":", label=f"KV passes the weights: {passed:,} tokens")
    panel.set_xscale("log", base=2)
    ticks = xs[:: 1 + len(xs) // _TICKS]
    panel.set_xticks(ticks, [tick(x) for x in ticks])
    panel.set(xlabel="tokens of each sequence", ylabel="memory of one GPU, GB", xlim=(xs[0], xs[-1]))
    panel.set_title(f"{_where(made)}, batch {made.work.batch}", fontsize=11)
    panel.legend(loc="upper left", fontsize=8)
    return drawn


def tokens_figure(made: Estimate, points: Sequence[BatchPoint]) -> Figure:
    """Output tokens per second and time per output token over the batch; hollow where it does not fit."""
    drawn = blank(10.4, 4.4)
    panels = drawn.subplots(1, 2)
    xs = [point.batch for point in points]
    for panel, ys, label in (
        (panels[0], [point.tokens_per_s for point in points], "output tokens per second"),
        (panels[1], [point.tpot_ms for point in points], "time per output token, ms"),
    ):
        panel.plot(xs, ys, color="#0072b2", linewidth=1.4)
        for fits, face in ((True, "#0072b2"), (False, "white")):
            chosen = [(x, y) for x, y, point in zip(xs, ys, points, strict=True) if point.fits is fits]
            if chosen:
                marks = panel.plot(*zip(*chosen, strict=True), "o", color="#0072b2", markerfacecolor=face)
                marks[0].set_label("fits" if fits else "does not fit")
        scale_x(panel, xs)
        panel.set(xlabel="batch", ylabel=label)
        panel.set_ylim(0, 1.08 * max(ys))
    finish(drawn, panels[-1], f"{_where(made)}, prompt {made.work.prompt}, output {made.work.output}")
    return drawn


def write_comparison(estimates: Sequence[Estimate], folder: Path) -> list[Path]:
    """The plots of a sweep of estimates, in ``folder``; returns their paths: theory beside measurement where something
    was measured, and the curves over the batch where they differ in more than the batch."""
    return [*theory.write_plot(estimates, folder), *_write_curves(estimates, folder)]


def _write_curves(estimates: Sequence[Estimate], folder: Path) -> list[Path]:
    """Tokens per second and time per token over the batch, as far as it fits; nothing of fewer than two lines.

    Of more than eight the eight of fewest GPUs are drawn, those that fit as they are before the others.
    """
    alike = {replace(made.work, batch=1): made.work for made in estimates}
    lines = {_label(made, len(alike) > 1): made for made in _first_fitting(estimates)}
    if len(lines) < 2:
        return []
    drawn = blank(11.4, 4.8)
    panels = drawn.subplots(1, 2)
    for index, (label, made) in enumerate(list(lines.items())[: len(COLOURS)]):
        points = [point for point in over_batch(made) if point.fits]
        xs = [point.batch for point in points]
        colour, marker = COLOURS[index], MARKERS[index]
        for panel, ys in (
            (panels[0], [point.tokens_per_s for point in points]),
            (panels[1], [point.tpot_ms for point in points]),
        ):
            panel.plot(xs, ys, marker=marker, color=colour, markersize=4, linewidth=1.3, label=label)
    for panel, label in ((panels[0], "tokens per second while decoding"), (panels[1], "time per output token, ms")):
        panel.set_xscale("log", base=2)
        panel.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
        panel.set(xlabel="batch, as far as it fits", ylabel=label)
        panel.set_ylim(bottom=0)
    finish(drawn, panels[-1], "tokens over the batch, on paper")
    path = folder / TOKENS
    folder.mkdir(parents=True, exist_ok=True)
    drawn.savefig(path, dpi=110)
    return [path]


def _first_fitting(estimates: Sequence[Estimate]) -> list[Estimate]:
    """Those of which at least one sequence fits: what fits as it is first, then by the number of GPUs."""
    return sorted(
        (one for one in estimates if one.metrics["max_batch"] and not one.kernels),
        key=lambda one: (not one.memory.fits, one.parallel.gpus),
    )


def _label(made: Estimate, work: bool) -> str:
    """Without the batch; with ``work`` what is asked, where that differs."""
    asked = f", {made.work.prompt} + {made.work.output} tokens, KV {made.work.kv.name}" if work else ""
    return _where(made) + asked


def _where(made: Estimate) -> str:
    gpus = f"{made.parallel.gpus} × " if made.parallel.gpus > 1 else ""
    return f"{made.architecture.name}, {made.work.weights.name} on {gpus}{made.machine.name}"
