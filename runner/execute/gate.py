"""A study's gate: the results of a sweep against the standards of their GPU in the store."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path

from rich.console import Console

from runner.config.errors import ConfigError
from runner.config.gate import share
from runner.config.points import Point
from runner.config.schema import Gate, Tracking
from runner.exit_codes import AMBIGUOUS, INCOMPARABLE, PASSED, REGRESSION
from runner.paths import project_dir
from runner.record import baselines, measured, spool
from runner.record.location import Location, TrackingUnavailable, locate
from runner.record.selection import Selection
from runner.report.compared_table import print_comparison
from runner.result import document
from runner.result.document import DocumentError
from runner.result.model import Result
from runner.verdict import of_result
from runner.verdict.judge import judge
from runner.verdict.match import match
from runner.verdict.model import Comparison, Judged, Measured, Rules, Verdict


class Answer(Enum):
    """What a gate says, with the exit code for it."""

    OPEN = PASSED
    CLOSED = REGRESSION
    UNDECIDED = AMBIGUOUS
    UNHELD = INCOMPARABLE


_GRAVEST = (Answer.CLOSED, Answer.UNHELD, Answer.UNDECIDED, Answer.OPEN)
"""Of several gates the first decides."""


@dataclass(frozen=True)
class Counts:
    """Experiments by what is known of them, each in one of these."""

    slow: int = 0
    """Surely slower by more than the gate lets through: the interval lies wholly beyond."""
    unclear: int = 0
    """Could be: the interval reaches beyond, in time or, under another clock, in cycles; or there is none."""
    fast: int = 0
    """Surely not."""
    incomparable: int = 0

    def answer(self, least: int) -> Answer:
        """``least``: so many slow experiments close the gate."""
        if self.slow >= least:
            return Answer.CLOSED
        if self.slow + self.unclear >= least:
            return Answer.UNDECIDED
        return Answer.OPEN if self.slow + self.unclear + self.fast else Answer.UNHELD


def check(points: Sequence[Point]) -> None:
    """Raises ``ConfigError`` for a gate that these points could never close."""
    gates = [point.config.study.gate for point in points]
    for gate in gates:
        most = gates.count(gate)
        if gate.max_slowdown is not None and gate.min_experiments > most:
            raise ConfigError(
                f"study.gate.min_experiments={gate.min_experiments}: must be at most {most}: this command has no "
                "more experiments, and the gate could never close"
            )


def hold(points: Sequence[Point], folder: Path, sweep_id: str, console: Console) -> int:
    """Compares, prints and gives the exit code; nothing happens where no study carries a gate. ``folder`` is the
    sweep's, with its results."""
    gates: list[Gate] = []
    for point in points:
        if point.config.study.gate.max_slowdown is not None and point.config.study.gate not in gates:
            gates.append(point.config.study.gate)
    if not gates:
        return PASSED
    results = list(_results(folder, sweep_id))
    answers = [_one(gate, results, points[0].config.tracking, sweep_id, console) for gate in gates]
    return next(answer.value for answer in _GRAVEST if answer in answers)


def count(judged: Sequence[Judged], limit: float) -> Counts:
    """``limit``: relative, 0.03 = 3 %. Variants of one experiment are one: the worst of them counts."""
    worst: dict[str, str] = {}
    order = ("incomparable", "fast", "unclear", "slow")
    for number, one in enumerate(judged):
        key = one.pair.candidate.experiment_id or str(number)
        worst[key] = max(worst.get(key, order[0]), _kind(one, limit), key=order.index)
    found = list(worst.values())
    return Counts(**{kind: found.count(kind) for kind in order})


def _kind(one: Judged, limit: float) -> str:
    if one.verdict is Verdict.INCOMPARABLE:
        return "incomparable"
    if one.verdict is Verdict.SLOWER and one.low is not None and one.low > limit:
        return "slow"
    return "unclear" if one.high is None or max(one.high, _high_in_cycles(one)) > limit else "fast"


def _high_in_cycles(one: Judged) -> float:
    """Upper end of the effect's interval in cycles, where clocks differ: a higher clock hides slower code."""
    if one.high is None or one.effect is None or one.effect_cycles is None:
        return -1.0
    return (1 + one.high) * (1 + one.effect_cycles) / (1 + one.effect) - 1


def _one(gate: Gate, results: Sequence[Result], tracking: Tracking, sweep_id: str, console: Console) -> Answer:
    def say(line: str) -> None:
        console.print(f"gate: {line}", markup=False, soft_wrap=True)

    now = [of_result.measured(one) for one in results if one.config.get("study", {}).get("gate") == asdict(gate)]
    devices = ", ".join(sorted({one.device for one in now if one.device})) or "no device"
    limit = share(gate.max_slowdown)
    try:
        location = locate(tracking.uri, project_dir())
        comparison = _comparison(location, now, sweep_id, limit)
    except TrackingUnavailable as error:
        say(f"not held: {error}")
        return Answer.UNHELD
    if comparison.judged:
        console.print()
        print_comparison(comparison, console)
    counts = count(comparison.judged, limit)
    answer = counts.answer(gate.min_experiments)
    if comparison.only_candidate:
        say(f"{len(comparison.only_candidate)} of {len(now)} results have no standard")
    if counts.incomparable:
        say(f"{counts.incomparable} experiments do not compare with their standard; the table says why")
    told = (
        f"experiments slower by more than {100 * limit:.3g} %: {counts.slow} for sure, {counts.unclear} perhaps, of "
        f"{counts.slow + counts.unclear + counts.fast}; it closes at {gate.min_experiments}"
    )
    if answer is Answer.UNHELD:
        say(f"not held: nothing compares with a standard for {devices}; {_how_to_set(tracking, location, sweep_id)}")
    elif answer is Answer.UNDECIDED:
        say(f"undecided: {told}; measure longer, or in several processes")
    else:
        say(f"{answer.name.lower()}: {told}")
    return answer


def _comparison(location: Location, now: Sequence[Measured], sweep_id: str, limit: float) -> Comparison:
    """Against the standards of the same configurations; those of other devices only where there is none of the same."""
    kernels = tuple(sorted({one.kernel for one in now}))
    runs = baselines.standing(location, Selection(kernels=kernels)) if kernels else []
    wanted = {one.configuration for one in now}
    then = [one for one in map(measured.of_run, runs) if one is not None and one.configuration in wanted]
    matched = match(then, now)
    rules = Rules(tolerance=limit) if limit else Rules()
    judged = tuple(judge(matched.pairs, rules))
    return Comparison("the standards", f"sweep {sweep_id}", judged, (), matched.only_candidate, rules)


def _how_to_set(tracking: Tracking, location: Location, sweep_id: str) -> str:
    uri = f" uri={shlex.quote(location.shown)}" if tracking.uri else ""
    return f"this sweep becomes it by: python -m runner.baseline set sweep={sweep_id}{uri}"


def _results(folder: Path, sweep_id: str) -> Iterable[Result]:
    for path in spool.results(folder):
        try:
            result = document.read(path)
        except DocumentError:  # said where it was to be filed
            continue
        if result.sweep_id == sweep_id:
            yield result
