"""The diagnosis in words: for a terminal, for ``diagnosis.md`` and for the report."""

from __future__ import annotations

from collections.abc import Sequence

from runner.report.markdown import bullets, escape, joined
from runner.report.numbers import digits, full_rate
from runner.result.model import Cause, Result, Status


def diagnosis_text(result: Result) -> str:
    """``diagnosis.md`` of one variant."""
    return joined([f"# {escape(f'{result.kernel} {result.variant}')}: what bounds it", *paragraphs(result, "##")])


def paragraphs(result: Result, heading: str) -> list[str]:
    """The causes, those of one kind together, with their figures and what to try; what would settle the rest; the place
    on the roofline."""
    if result.status is not Status.PASSED:
        return [f"No diagnosis: the variant ended as {result.status.value}."]
    diagnosis = result.diagnosis
    parts = []
    said: set[str] = set()
    alike: dict[str, list[Cause]] = {}
    for cause in diagnosis.causes:
        alike.setdefault(_cause(cause), []).append(cause)
    for number, (bound, causes) in enumerate(alike.items()):
        parts.append(f"{heading} {'Bound by' if number == 0 else 'Also'} {escape(bound)}")
        parts.append(bullets([sentence for cause in causes for sentence in cause.evidence]))
        advised = dict.fromkeys(sentence for cause in causes for sentence in cause.advice)
        advice = [sentence for sentence in advised if sentence not in said]
        if advice:
            parts += ["What to try:", bullets(advice)]
        said.update(advice)
    if not diagnosis.causes:
        parts.append("What was measured does not say what bounds this variant.")
    if diagnosis.next_step:
        parts.append(f"Next: {escape(diagnosis.next_step)}.")
    return [*parts, placement(result)]


def placement(result: Result) -> str:
    """Where the variant lies on the roofline; empty where a roof is unknown."""
    found = result.metrics
    if not {"intensity", "pct_peak_bandwidth", "pct_peak_flops", "tflops"} <= found.keys() or not found["tflops"]:
        return ""
    flops = full_rate(found, "tflops", "pct_peak_flops")
    bandwidth = full_rate(found, "gbps", "pct_peak_bandwidth")
    ridge = 1e3 * flops / bandwidth
    side = "below" if found["intensity"] < ridge else "above"
    roof = min(flops, found["intensity"] * bandwidth * 1e-3)
    return (
        f"Roofline: {digits(found['intensity'])} FLOP/byte, {side} the ridge at {digits(ridge)}. "
        f"The roof there is {digits(roof)} TFLOP/s; it reaches {digits(found['tflops'])}, "
        f"{100 * found['tflops'] / roof:.1f} %."
    )


def headlines(results: Sequence[Result]) -> list[str]:
    """For a terminal: a line for each thing that bounds, with the variants it bounds, and one for each next step."""
    bounds: dict[tuple[str, str], list[Result]] = {}
    steps: dict[str, list[str]] = {}
    for result in results:
        if result.diagnosis.causes:
            bounds.setdefault((result.diagnosis.bound, result.diagnosis.confidence), []).append(result)
        if result.diagnosis.next_step:
            steps.setdefault(result.diagnosis.next_step, []).append(result.variant)
    lines = []
    for (bound, confidence), those in bounds.items():
        evidence = next(iter(those[0].diagnosis.causes[0].evidence), "")
        who = ", ".join(result.variant for result in those)
        of = f" (of {those[0].variant})" if len(those) > 1 else ""
        lines.append(f"{who} bound by {bound.replace('_', ' ')}, {confidence}: {evidence.rstrip('.')}{of}")
    everywhere = len([result for result in results if result.status is Status.PASSED])
    for step, variants in steps.items():
        lines.append(f"next{'' if len(variants) == everywhere else ' for ' + ', '.join(variants)}: {step}")
    return lines


def _cause(cause: Cause) -> str:
    return f"{cause.bound.replace('_', ' ')} ({cause.confidence})"
