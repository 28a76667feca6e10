"""The table for other programs: Markdown as it is shown, CSV with every figure as it was measured."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from runner.report.markdown import escape, line
from runner.report.rows import Rows, rows
from runner.result.model import Result

_FIXED = ("kernel", "variant", "status", "quality", "backend", "gpu", "model", "shape", "phase")


def markdown(results: Sequence[Result], swept: Sequence[str] = (), footer: Sequence[str] = ()) -> str:
    """Every column and note of the terminal's table, one Markdown table per family."""
    parts = [_family(family) for family in rows(results, swept)]
    if footer:
        parts.append("\n".join(f"{line.strip()}  " for line in footer))
    return "\n\n".join(parts) + "\n"


def csv_text(results: Sequence[Result]) -> str:
    """One line per result: identity, parameters, then metrics under their own names; absent figures are empty."""
    params = dict.fromkeys(key for result in results for key in result.params if key not in _FIXED)
    metrics = dict.fromkeys(key for result in results for key in result.metrics)
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*_FIXED, *params, *metrics, "message", "warnings", "id", "started", "repeat"])
    for result in results:
        row: list[object] = [getattr(result, key) for key in _FIXED]
        row[2:4] = [result.status.value, result.quality.value]
        row += [result.params.get(key, "") for key in params]
        row += [result.metrics.get(key, "") for key in metrics]
        row += [result.message, "; ".join(result.warnings), result.id, result.started, result.repeat]
        writer.writerow(row)
    return stream.getvalue()


def _family(family: Rows) -> str:
    titles = [column.title.replace("\n", " ") for column in family.columns]
    lines = [f"### {family.kernel}", "", line(titles)]
    lines.append("|" + "|".join(" ---: " if column.right else " --- " for column in family.columns) + "|")
    for index in range(len(family.statuses)):
        lines.append(line([column.cells[index] for column in family.columns]))
    lines += ["", family.headline + "."]
    if family.notes:
        lines.append("")
        lines += [f"* **{note.head}** {escape(note.where())}: {escape(note.text)}" for note in family.notes]
    return "\n".join(lines)
