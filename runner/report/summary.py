"""The report of a whole sweep in one folder: ``table.md``, ``table.csv``, a decoder's ``record.md``, the plots and the
rooflines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from runner.report.export import csv_text, markdown
from runner.report.record import record
from runner.report.roofline_files import write_rooflines
from runner.result.document import write_text
from runner.result.model import Result


def write_report(results: Sequence[Result], folder: Path, swept: Sequence[str] = ()) -> list[Path]:
    """Writes the report and returns its files. Plots are made only of results that have times.

    Raises ``DocumentError`` when the folder cannot be written.
    """
    written = [folder / "table.md", folder / "table.csv"]
    write_text(written[0], markdown(results, swept))
    write_text(written[1], csv_text(results))
    told = record(results)
    if told:
        written.append(folder / "record.md")
        write_text(written[-1], told + "\n")
    if any("time_us" in result.metrics for result in results):
        from runner.report.plots import write_plots  # matplotlib takes a second to import

        written += write_plots(results, folder, swept)
        written += write_rooflines(results, folder, swept)
    return written
