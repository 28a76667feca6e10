"""``report.md``: one experiment, all its variants, as evidence that a colleague can check."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from runner.report import bottleneck, evidence, profile
from runner.report.comparison import Earlier, comparison
from runner.report.export import markdown
from runner.report.gemms import gemms
from runner.report.markdown import escape, joined, table
from runner.result.document import write_text
from runner.result.model import Result, Status
from runner.result.names import GROUP_KEYS, plain

REPORT = "report.md"
DIAGNOSIS = "diagnosis.md"


def write(results: Sequence[Result], folder: Path, earlier: Earlier | None = None) -> None:
    """Writes ``report.md`` into the experiment's ``folder``, and into that of each variant that ran, which is what a
    tracker files, beside its ``diagnosis.md``; both become artifacts of the result. Raises ``DocumentError``."""
    ran = [result for result in results if result.variant and result.metrics]
    if not ran:
        return
    text = report(results, earlier)
    write_text(folder / REPORT, text)
    for result in ran:
        write_text(folder / result.variant / DIAGNOSIS, bottleneck.diagnosis_text(result))
        write_text(folder / result.variant / REPORT, text)
        result.artifacts = list(dict.fromkeys([*result.artifacts, DIAGNOSIS, REPORT]))


def report(results: Sequence[Result], earlier: Earlier | None = None) -> str:
    """The whole report; paths in it start at the experiment's folder."""
    first = results[0]
    named = (("model", first.model), ("shape", first.shape), ("phase", first.phase))
    where = ", ".join(f"{name} {value}" for name, value in named if value)
    parts = [
        f"# {escape(first.kernel)} on {escape(first.gpu or first.backend)}",
        f"{escape(where)}; started {first.started}. Times come from runs without a profiler."
        + (" They are a CPU's." if first.backend == "host" else ""),
        "## Environment",
        evidence.environment(first),
        "## Commands",
        evidence.commands(results),
        *_sizes(first),
        "## Results",
        markdown(results).partition("\n")[2].strip(),
        "\\* is the baseline of the speed-ups." if any(result.baseline for result in results) else "",
    ]
    for result in results:
        parts += _variant(result)
    if gemms(first):
        parts += ["## GEMM shapes", *gemms(first)]
    if earlier is not None:
        parts += ["## Comparison", *comparison(results, earlier)]
    if evidence.reports(results):
        parts += ["## Raw reports", evidence.reports(results)]
    return joined(parts)


def _variant(result: Result) -> list[str]:
    parts = [f"## {escape(result.variant or 'all variants')}"]
    if result.status is not Status.PASSED:
        said = profile.tables(result.profile, "###", "####") if result.profile.tool else []
        return [*parts, f"{result.status.value}: {escape(result.message)}", *said]
    return [*parts, *bottleneck.paragraphs(result, "###"), *profile.tables(result.profile, "###", "####")]


def _sizes(result: Result) -> list[str]:
    rows = [
        [name, result.names.get(name, ""), plain(value)]
        for name, value in result.params.items()
        if name not in result.names.values() and name not in GROUP_KEYS
    ]
    return ["## Sizes", table(["parameter", "name", "value"], rows, left=2)] if rows else []
