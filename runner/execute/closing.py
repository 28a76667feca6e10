"""The end of a command: its report, what is filed, the table, the gate, the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from runner.config.points import Point
from runner.estimate.model import Estimate
from runner.execute import gate
from runner.execute.estimating import page_of
from runner.exit_codes import FAILED, INTERRUPTED
from runner.record.recorder import Recorder
from runner.record.spool import REPORT_FOLDER, SweepStatus
from runner.report.bottleneck import headlines
from runner.report.estimate import print_page
from runner.report.estimate_files import write_comparison
from runner.report.experiment import REPORT
from runner.report.profile import profiled_lines
from runner.report.summary import write_report
from runner.report.table import print_table
from runner.result.document import DocumentError


@dataclass(frozen=True)
class Ending:
    """How a command came to its end."""

    status: SweepStatus = SweepStatus.FINISHED
    problem: str = ""
    """Why it stopped before all was run; empty where it did not."""


def close(
    recorder: Recorder,
    points: Sequence[Point],
    ending: Ending,
    console: Console,
    estimates: Sequence[Estimate] = (),
    page: Estimate | None = None,
) -> int:
    """Writes the report, files what is left, prints the table, holds the gate; the exit code. ``points``: all that were
    to be run, those among them that measure kernels for an estimate. ``page``: the only one, printed in the table's
    place."""
    folder, swept = recorder.folder, recorder.sweep.swept
    if ending.status is SweepStatus.KILLED:
        console.print("interrupted: what was finished is kept", markup=False, soft_wrap=True)
    if ending.problem:
        console.print(f"stopped: {ending.problem}; what was finished before is kept", markup=False, soft_wrap=True)
    footer = [
        *(headlines(recorder.results) if len(points) == 1 else ()),
        *profiled_lines(recorder.results),
        f"results: {folder}",
        *_reports(points, folder),
    ]
    try:
        write_report(recorder.results, folder / REPORT_FOLDER, swept)
        if len(estimates) > 1:
            write_comparison(estimates, folder / REPORT_FOLDER)
    except (DocumentError, OSError) as error:
        footer.append(f"no report: {error}")
    footer += recorder.finish(ending.status)
    if page is not None:
        print_page(page_of(page), footer, console)
    else:
        print_table(recorder.results, swept, footer, console)
    if ending.status is SweepStatus.KILLED:
        return INTERRUPTED
    held = gate.hold(points, folder, recorder.sweep.sweep_id, console)
    return FAILED if ending.problem or any(result.status.failed for result in recorder.results) else held


def _reports(points: Sequence[Point], folder: Path) -> list[str]:
    """Where ``report.md`` lies, of each experiment of a sweep."""
    written = [point.folder / REPORT for point in points if (point.folder / REPORT).is_file()]
    if len(written) > 1:
        return [f"reports: {folder}/*/{REPORT}"]
    return [f"report: {path}" for path in written]


def swept(points: Sequence[Point]) -> tuple[str, ...]:
    """Override keys that differ between the points, slowest first."""
    values: dict[str, set[str]] = {}
    for point in points:
        for line in point.overrides:
            key, _, value = line.partition("=")
            values.setdefault(key.lstrip("+"), set()).add(value)
    return tuple(key for key, seen in values.items() if len(seen) > 1)
