"""The verdict on each pair: effect, its interval, noise floor, and whether it is more than chance.

The effect is the logarithm of candidate over baseline. Its error joins what the samples show with what differs between
processes (``noise.py``). FASTER and SLOWER need a difference that chance gives in less than ``alpha`` of cases, after
correction for the number of pairs (``discovery.py``), and SAME an interval wholly within the tolerance; what is neither
stays AMBIGUOUS. A difference that is surely within the tolerance is SAME even where it is surely there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from runner.verdict.discovery import adjusted
from runner.verdict.doubt import doubt, obstacle
from runner.verdict.model import Judged, Pair, Rules, Verdict
from runner.verdict.noise import CHANGED_CLOCK, Noise, noise

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Tests:
    """One entry a pair; effects and bounds are logarithms of ratios."""

    effect: Array
    low: Array
    high: Array
    p: Array
    verdicts: list[Verdict]


def judge(pairs: Sequence[Pair], rules: Rules | None = None) -> list[Judged]:
    """A verdict for each pair, in their order; the correction is over all of them that can be judged."""
    rules = rules or Rules()
    obstacles = [obstacle(pair, rules) for pair in pairs]
    doubts = ["" if hindered else doubt(pair) for pair, hindered in zip(pairs, obstacles, strict=True)]
    clear = [number for number in range(len(pairs)) if not obstacles[number] and not doubts[number]]
    told = dict(zip(clear, _judged([pairs[number] for number in clear], rules), strict=True))
    return [
        told.get(number) or _undecided(pair, obstacles[number], doubts[number]) for number, pair in enumerate(pairs)
    ]


def _undecided(pair: Pair, hindered: str, doubted: str) -> Judged:
    if hindered:
        return Judged(pair, Verdict.INCOMPARABLE, hindered)
    return Judged(pair, Verdict.AMBIGUOUS, doubted, effect=math.expm1(_effect(pair)))


def _judged(pairs: list[Pair], rules: Rules) -> list[Judged]:
    if not pairs:
        return []
    from scipy.special import stdtrit

    spread = noise(pairs)
    effects = np.array([_effect(pair) for pair in pairs])
    shifts = np.array([_clock_shift(pair) for pair in pairs])
    times = _tests(effects, spread, rules)
    cycles = _tests(effects + shifts, spread, rules)
    floors = stdtrit(spread.freedom, 0.975) * spread.between
    found = []
    for number, pair in enumerate(pairs):
        verdict, reason, in_cycles = times.verdicts[number], "", None
        if verdict is Verdict.AMBIGUOUS:
            reason = _why(times, number, len(pairs), rules)
        if shifts[number]:
            in_cycles = float(np.expm1(cycles.effect[number]))
            verdict, reason = _confirmed(pair, verdict, cycles.verdicts[number], reason)
        found.append(
            Judged(
                pair,
                verdict,
                reason,
                effect=float(np.expm1(times.effect[number])),
                low=float(np.expm1(times.low[number])),
                high=float(np.expm1(times.high[number])),
                floor=float(np.expm1(floors[number])),
                p=float(times.p[number]),
                effect_cycles=in_cycles,
            )
        )
    return found


def _effect(pair: Pair) -> float:
    assert pair.baseline.time_us and pair.candidate.time_us, "pairs without a time are INCOMPARABLE"
    return math.log(pair.candidate.time_us / pair.baseline.time_us)


def _clock_shift(pair: Pair) -> float:
    """Logarithm of the ratio of the clocks; 0 where one is unknown or both are the same, and between two kinds of
    device, for whose cycles nobody asks."""
    then, now = pair.baseline.sm_clock_mhz, pair.candidate.sm_clock_mhz
    if not then or not now or pair.baseline.device != pair.candidate.device:
        return 0.0
    shift = math.log(now / then)
    return shift if abs(shift) > CHANGED_CLOCK else 0.0


def _tests(effect: Array, spread: Noise, rules: Rules) -> _Tests:
    """Student's test of no difference, and the interval held against the tolerance."""
    from scipy.special import stdtr, stdtrit

    p = adjusted(2 * stdtr(spread.freedom, -np.abs(effect) / spread.error))
    reach = stdtrit(spread.freedom, 0.975) * spread.error
    low, high = effect - reach, effect + reach
    limit = math.log1p(rules.tolerance)
    within = (low > -limit) & (high < limit)
    verdicts = [
        Verdict.SAME
        if same
        else (Verdict.SLOWER if one > 0 else Verdict.FASTER)
        if chance <= rules.alpha
        else Verdict.AMBIGUOUS
        for same, one, chance in zip(within, effect, p, strict=True)
    ]
    return _Tests(effect, low, high, p, verdicts)


def _why(times: _Tests, number: int, count: int, rules: Rules) -> str:
    if times.low[number] > 0 or times.high[number] < 0:
        among = f" among {count} comparisons" if count > 1 else ""
        return f"a difference is likely, not sure enough{among} (p = {times.p[number]:.2g} > {rules.alpha:g})"
    return f"the interval reaches from no difference to beyond the tolerance of {100 * rules.tolerance:.3g} %"


def _confirmed(pair: Pair, in_time: Verdict, in_cycles: Verdict, reason: str) -> tuple[Verdict, str]:
    """Times under different clocks count where cycles say the same."""
    then, now = pair.baseline.sm_clock_mhz, pair.candidate.sm_clock_mhz
    clocks = f"clocks differ ({then:.0f} and {now:.0f} MHz)"
    if in_time is not in_cycles:
        return Verdict.AMBIGUOUS, f"{clocks}: {in_time.value} in time, {in_cycles.value} in cycles"
    return in_time, f"{clocks}; in cycles the same" if in_time is not Verdict.AMBIGUOUS else f"{clocks}; {reason}"
