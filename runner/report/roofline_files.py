"""The rooflines of a command as files: for each device a plot, an interactive page and the numbers behind both."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from runner.report.roofline import csv_text, devices, points, roofs, thinned
from runner.result.document import write_text
from runner.result.model import Result

MOST_RESULTS = 3000
"""Drawn in one plot and page; the CSV has all. Beyond that points hide each other and a browser gets slow."""


def write_rooflines(results: Sequence[Result], folder: Path, swept: Sequence[str] = ()) -> list[Path]:
    """Writes ``roofline_<device>.png``, ``.html`` and ``.csv`` and returns their paths; nothing for a device of which
    no roof is known. Raises ``DocumentError`` and ``OSError``."""
    written: list[Path] = []
    for device, members in devices(results).items():
        placed = points(members, swept)
        if not roofs(placed):
            continue
        from runner.report.roofline_page import page  # plotly and matplotlib take their time to import
        from runner.report.roofline_plot import plot

        shown = thinned(placed, MOST_RESULTS)
        of = {(point.experiment, *point.series) for point in placed}
        drawn = {(point.experiment, *point.series) for point in shown}
        note = (
            f"{len(drawn)} of {len(of)} results drawn, evenly spaced; all are in the CSV"
            if len(drawn) < len(of)
            else ""
        )
        title = f"Roofline of {device}" + (" (CPU)" if members[0].backend == "host" else "")
        stem = folder / f"roofline_{re.sub(r'[^A-Za-z0-9_.-]+', '_', device)}"
        png, html, table = (stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "html", "csv"))
        folder.mkdir(parents=True, exist_ok=True)
        plot(shown, title, note).savefig(png, dpi=130)
        write_text(html, page(shown, title, note))
        write_text(table, csv_text(placed))
        written += [png, html, table]
    return written
