"""What MLflow shows as a run's description: diagnosis and profile in Markdown. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from runner.record.fields import TAG_LENGTH
from runner.report.markdown import bullets, escape, table
from runner.result.model import Result

MOST_ROWS = 15
"""Of one table."""


def note(result: Result) -> str:
    """Markdown: the diagnosis, kernels, categories, findings and raw reports; empty where there is none of them."""
    parts = [_diagnosis(result), _kernels(result), _categories(result), _findings(result), _reports(result)]
    return _fitting([part for part in parts if part])


def _diagnosis(result: Result) -> str:
    diagnosis = result.diagnosis
    lines = []
    if diagnosis.bound:
        lines.append(f"**Bound by {escape(diagnosis.bound)}** ({diagnosis.confidence})")
        first = diagnosis.causes[:1]
        said = [sentence for cause in first for sentence in cause.evidence]
        lines.append(bullets([*said, *(f"Try: {sentence}" for cause in first for sentence in cause.advice)]))
    if diagnosis.next_step:
        lines.append(bullets([f"Next: {diagnosis.next_step}"]))
    return "\n".join(filter(None, lines))


def _kernels(result: Result) -> str:
    rows = [
        [
            use.name,
            use.category,
            str(use.calls),
            f"{use.mean_us:.2f}",
            f"{use.total_us:.1f}",
            _percent(use.share),
        ]
        for use in result.profile.kernels
    ]
    return _table(
        "Device work in the profiled range", ["name", "category", "calls", "mean µs", "total µs", "%"], rows, 2
    )


def _categories(result: Result) -> str:
    rows = [
        [use.category, str(use.calls), f"{use.total_us:.1f}", _percent(use.share)] for use in result.profile.categories
    ]
    return _table("By category", ["category", "calls", "total µs", "%"], rows)


def _findings(result: Result) -> str:
    rows = [[one.kind, one.where, one.detail, str(one.count)] for one in result.profile.findings]
    return _table("Findings", ["what", "where", "detail", "times"], rows, 3)


def _reports(result: Result) -> str:
    rows = [[one.path, one.sha256, str(one.bytes)] for one in result.profile.reports]
    return _table("Raw reports", ["file", "SHA-256", "bytes"], rows, 2)


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    if not rows:
        return ""
    more = f"and {len(rows) - MOST_ROWS} more in result.json" if len(rows) > MOST_ROWS else ""
    return "\n\n".join(filter(None, [f"**{title}**", table(head, rows[:MOST_ROWS], left), more]))


def _fitting(parts: Sequence[str]) -> str:
    """The parts as one text that a tag can hold: cut between lines, never within a table's row."""
    text = "\n\n".join(parts)
    mark = "\n\n… (cut; result.json has the rest)"
    if len(text) <= TAG_LENGTH:
        return text
    return text[: TAG_LENGTH - len(mark)].rpartition("\n")[0] + mark
