"""A comparison as text: what was compared, a row for each experiment, and what is left over. Worst news first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runner.report import markdown, numbers
from runner.streams import printable
from runner.verdict.model import Comparison, Judged, Measured, Verdict

HEAD = ("experiment", "baseline", "candidate", "change", "95 % interval", "noise floor", "verdict", "why")
ORDER = (Verdict.SLOWER, Verdict.INCOMPARABLE, Verdict.AMBIGUOUS, Verdict.FASTER, Verdict.SAME)
LISTED = 5
"""Experiments without a partner that are named; the others are counted."""
_OWN = ("kernel", "variant")


@dataclass(frozen=True)
class Row:
    judged: Judged
    cells: tuple[str, ...]
    """As ``HEAD``."""


def rows(comparison: Comparison) -> list[Row]:
    """The worst first: verdict, then size of the effect."""
    ordered = sorted(comparison.judged, key=lambda one: (ORDER.index(one.verdict), -abs(one.effect or 0.0)))
    names = labels([one.pair.candidate for one in ordered])
    return [Row(one, (name, *_cells(one))) for one, name in zip(ordered, names, strict=True)]


def labels(runs: Sequence[Measured]) -> list[str]:
    """Family, variant and the parameters in which these differ. What follows from the variant is left out, and of two
    that always move together (a letter and its long name) the longer."""
    params = [one.params for one in runs]
    keys = sorted({key for one in params for key in one} - set(_OWN), key=lambda key: (len(key), key))
    shown: dict[tuple[str, ...], str] = {}
    for key in keys:
        values = tuple(one.get(key, "") for one in params)
        pairs = {(one.kernel, one.variant, value) for one, value in zip(runs, values, strict=True)}
        if len(pairs) > len({(kernel, variant) for kernel, variant, _ in pairs}):
            shown.setdefault(values, key)
    found = []
    for number, one in enumerate(runs):
        parts = [f"{key}={values[number]}" for values, key in shown.items() if values[number]]
        found.append(printable(" ".join(filter(None, [one.kernel, one.variant, *parts]))))
    return found


def headline(comparison: Comparison) -> str:
    """``12 experiments: 1 SLOWER, 11 SAME``, the worst first."""
    count = len(comparison.judged)
    told = ", ".join(f"{comparison.counts[each]} {each.value}" for each in ORDER if comparison.counts[each])
    return f"{count} {'experiment' if count == 1 else 'experiments'}: {told}"


def about(comparison: Comparison) -> list[str]:
    """What was compared and on what; one line each."""
    thens = [one.pair.baseline for one in comparison.judged]
    nows = [one.pair.candidate for one in comparison.judged]
    lines = [
        printable(f"baseline  {comparison.baseline}{_said(thens)}"),
        printable(f"candidate {comparison.candidate}{_said(nows)}"),
    ]
    if comparison.rules.across_gpus:
        lines.append("across GPUs: different devices are compared, as was asked for")
    return lines


def leftovers(comparison: Comparison) -> list[str]:
    """A line for each side that has experiments the other lacks."""
    found = []
    for side, runs in (("baseline", comparison.only_baseline), ("candidate", comparison.only_candidate)):
        if runs:
            named = labels([*runs, *(one.pair.candidate for one in comparison.judged)])[:LISTED][: len(runs)]
            rest = len(runs) - len(named)
            more = f" and {rest} more" if rest else ""
            found.append(f"only in the {side} ({len(runs)}): {', '.join(named)}{more}")
    return found


def legend(comparison: Comparison) -> str:
    """How to read the figures, and what would make the unclear ones clearer."""
    rules = comparison.rules
    words = (
        f"change: of the candidate's time against the baseline's; SAME: surely below {100 * rules.tolerance:.3g} %; "
        f"FASTER and SLOWER: at most {100 * rules.alpha:.3g} % of them by chance"
    )
    more = "; AMBIGUOUS: trials on both sides narrow an interval (measure.trials=5)" if _wide(comparison) else ""
    return words + more


def _wide(comparison: Comparison) -> bool:
    """Whether a pair is unclear whose interval is that of one process a side."""
    unclear = [one for one in comparison.judged if one.verdict is Verdict.AMBIGUOUS and one.low is not None]
    return any(min(one.pair.baseline.trials, one.pair.candidate.trials) < 2 for one in unclear)


def markdown_of(comparison: Comparison, most: int = 100) -> str:
    """For a pull request: at most ``most`` rows, those that are SAME folded away."""
    listed = rows(comparison)
    telling = [row for row in listed if row.judged.verdict is not Verdict.SAME]
    same = [row for row in listed if row.judged.verdict is Verdict.SAME]
    parts = [f"### {markdown.escape(headline(comparison))}", markdown.bullets(about(comparison))]
    parts += [_table(telling, most)]
    if same:
        parts += [f"<details><summary>{len(same)} SAME</summary>", _table(same, most), "</details>"]
    parts += [markdown.bullets(leftovers(comparison)), markdown.escape(legend(comparison))]
    return markdown.joined(parts)


def _table(listed: Sequence[Row], most: int) -> str:
    text = markdown.table(HEAD, [row.cells for row in listed[:most]], told=True)
    return text + (f"\n\nand {len(listed) - most} more" if len(listed) > most else "")


def _cells(one: Judged) -> tuple[str, ...]:
    change = numbers.NONE if one.effect is None else f"{one.effect:+.2%}"
    if one.low is None or one.high is None:
        interval = floor = numbers.NONE
    else:
        interval, floor = f"{one.low:+.2%} … {one.high:+.2%}", f"±{one.floor:.2%}"
    return (
        _time(one.pair.baseline),
        _time(one.pair.candidate),
        change,
        interval,
        floor,
        one.verdict.value,
        printable(one.reason),
    )


def _time(one: Measured) -> str:
    return numbers.time(one.time_us) if one.time_us else one.status.value


def _said(runs: Sequence[Measured]) -> str:
    """Commits (a plus: something was in none), devices and drivers of a side, where they are few enough to name."""
    told = []
    commits = {one.commit[:12] + "+" * one.dirty for one in runs if one.commit}
    for values in (commits, {one.device for one in runs}, {one.driver for one in runs}):
        named = sorted(values - {""})
        if named:
            told.append(", ".join(named[:3]) + (f" and {len(named) - 3} more" if len(named) > 3 else ""))
    return f" ({'; '.join(told)})" if told else ""
