"""Measured kernels, phase by phase: as tables of a page, and as CSV."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from runner.estimate.kernels import Kernels, Launch, Timing, called_us, sequence_us
from runner.report.block import Block
from runner.report.numbers import digits, time

_ID = 8
"""Characters of a run's id on a page."""


def kernel_blocks(kernels: Kernels) -> list[Block]:
    """A table for each phase, the longest operator first."""
    return [
        _block("decode", "one decode step", kernels.decode, kernels.launch),
        _block("prefill", "prefill of the batch", kernels.prefill, kernels.launch),
    ]


def kernels_csv(kernels: Kernels) -> str:
    """A line per phase and operator; microseconds. ``in_pass_us``: all calls, as they count in the phase."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["phase", "operator", "level", "calls", "time_us", "in_pass_us", "source"])
    for phase, timings in (("prefill", kernels.prefill), ("decode", kernels.decode)):
        for one in timings:
            passed = called_us(one, kernels.launch)
            writer.writerow([phase, one.operator, "measured", one.calls, one.time_us, passed, one.source])
    return stream.getvalue()


def _short(source: str) -> str:
    """A run by the beginning of its id, a folder by the name of its job: ``kernels.csv`` has all of it."""
    kind, _, run = source.partition(" ")
    return f"run {run[:_ID]}" if kind == "run" else Path(source).parent.name or source


def _block(phase: str, title: str, timings: tuple[Timing, ...], launch: Launch | None) -> Block:
    whole = sequence_us(timings, launch)
    rows = tuple(
        (
            one.operator,
            digits(one.calls) if one.calls < 1000 else f"{one.calls:.0f}",
            time(one.time_us),
            time(called_us(one, launch)),
            f"{100 * called_us(one, launch) / whole:.1f}%",
            _short(one.source),
        )
        for one in sorted(timings, key=lambda one: -called_us(one, launch))
    )
    lines = [f"{title.capitalize()}, each operator measured by itself."]
    if launch:
        lines.append(
            f"A kernel that does nothing takes {time(launch.empty_us)}, as a node of a graph {time(launch.node_us)} "
            f"({launch.source}): the difference is taken off what was measured together."
        )
    head = ("operator", "calls", "one call", "all calls", "share", "measured by")
    return Block(f"Measured operators: {phase}", tuple(lines), head, rows, told=True)
