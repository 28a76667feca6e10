"""What bounds a variant: the rules held against what was measured of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runner.diagnose.facts import facts
from runner.diagnose.rules import CERTAINTY, Line, Rule, figures_in, names_in, rules
from runner.plan.errors import FamilyError
from runner.plan.expressions import Evaluator, Value
from runner.result.model import Cause, Diagnosis, ProfileStatus, Result, Status

ON_A_GPU = "these are a CPU's figures: run on a GPU to learn what bounds the kernel there"
SMALLEST_SHARE = 0.02
"""Of the step's time; a further cause with less is not worth a reader's while."""
_NOTHING_KNOWN = "profiler=nsys shows where the time goes, kernel by kernel and gap by gap"


def diagnose(result: Result, known: Sequence[Rule] | None = None) -> Diagnosis:
    """Causes by the share of the time they account for, an uncertain one counting less; empty for a result that did
    not pass or was not timed. On the host backend nothing is more than ``possible``.

    A rule whose expression cannot be evaluated (a division by zero) is left out, with a warning in ``result``.
    """
    if result.status is not Status.PASSED or not (result.metrics or result.profile.metrics):
        return Diagnosis()
    found = facts(result)
    evaluator = Evaluator(found)
    applied: list[tuple[float, Rule, Cause]] = []
    for rule in rules() if known is None else known:
        if rule.last_resort and applied:
            continue
        try:
            share = _share(rule, found, evaluator)
            if share is not None:
                applied.append((share, rule, _cause(rule, found, evaluator)))
        except (FamilyError, ValueError) as error:  # ValueError: a format that the figure does not take
            result.warnings.append(f"diagnosis: the rule {rule.name} was left out: {error}")
    dropped = {name for _, rule, _ in applied for name in rule.instead_of}
    kept = [entry for entry in applied if entry[1].name not in dropped]
    host = result.backend == "host"
    if host:
        for _, _, cause in kept:
            cause.confidence = "possible"
    kept.sort(key=lambda entry: -entry[0] * CERTAINTY[entry[2].confidence])
    kept = [entry for index, entry in enumerate(kept) if index == 0 or entry[0] >= SMALLEST_SHARE]
    causes = [cause for _, _, cause in kept]
    return Diagnosis(
        bound=causes[0].bound if causes else "",
        confidence=causes[0].confidence if causes else "",
        causes=causes,
        next_step=ON_A_GPU if host else _next_step([rule for _, rule, _ in kept], result),
    )


def _share(rule: Rule, found: Mapping[str, Value], evaluator: Evaluator) -> float | None:
    """The share of the time; None where the rule does not apply."""
    needed = names_in(rule.when) | names_in(rule.share)
    if not needed <= found.keys() or not evaluator.truth(rule.when, f"{rule.name}.when"):
        return None
    return min(1.0, max(0.0, float(evaluator.number(rule.share, f"{rule.name}.share"))))


def _cause(rule: Rule, found: Mapping[str, Value], evaluator: Evaluator) -> Cause:
    return Cause(
        rule=rule.name,
        bound=rule.bound,
        confidence=rule.confidence,
        evidence=_said(rule.evidence, found, evaluator, f"{rule.name}.evidence"),
        advice=_said(rule.advice, found, evaluator, f"{rule.name}.advice"),
    )


def _said(lines: Sequence[Line], found: Mapping[str, Value], evaluator: Evaluator, where: str) -> list[str]:
    """The sentences whose figures are known and whose condition holds."""
    said = []
    for line in lines:
        known = figures_in(line.say) | names_in(line.when)
        if known <= found.keys() and evaluator.truth(line.when, where):
            said.append(line.say.format_map(found))
    return said


def _next_step(kept: Sequence[Rule], result: Result) -> str:
    """What would settle the first cause that is open; nothing where the first is sure."""
    if not kept:
        return "" if result.profile.status is ProfileStatus.OK else _NOTHING_KNOWN
    return kept[0].settle if kept[0].confidence != "sure" else ""
