"""Two sides → pairs of the same configuration, and what has no partner."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from runner.result.model import Status
from runner.verdict.doubt import of_one
from runner.verdict.model import Configuration, Measured, Pair

Where = tuple[str, str, str, str]
"""Backend, method, mode and device."""


@dataclass(frozen=True)
class Matched:
    """In the order of the candidates."""

    pairs: tuple[Pair, ...]
    only_baseline: tuple[Measured, ...]
    only_candidate: tuple[Measured, ...]


def match(baseline: Iterable[Measured], candidate: Iterable[Measured]) -> Matched:
    """Pairs by configuration, and within one by how and on what it was measured. Where nothing was measured alike, what
    is left of a configuration is paired all the same: a judgement then says why they do not compare.

    What was SKIPPED takes no part, and what stands on both sides counts for one (``_apart``). Of several runs of the
    same thing the newest counts, together with those that can stand for it (``pooled``).
    """
    then, now = _apart([*baseline], [*candidate])
    first, second = _grouped(then), _grouped(now)
    pairs: list[Pair] = []
    lonely: list[Measured] = []
    for key, new in second.items():
        old = first.get(key, {})
        for where in [where for where in new if where in old]:
            pairs.append(Pair(old.pop(where), new.pop(where)))
        for where in [*new] if old else []:
            nearest = max(old, key=lambda other: sum(a == b for a, b in zip(where, other, strict=True)), default=None)
            if nearest is None:
                break
            pairs.append(Pair(old.pop(nearest), new.pop(where)))
        lonely += new.values()
    missing = [one for old in first.values() for one in old.values()]
    return Matched(tuple(pairs), tuple(missing), tuple(lonely))


def _apart(baseline: list[Measured], candidate: list[Measured]) -> tuple[list[Measured], list[Measured]]:
    """Both sides without each other's runs, which would pull the two times together: what both have stays with the
    candidate where the baseline has others of the same thing that passed, and with the baseline where only the
    candidate has. Where neither has, a run is held against itself, and the caller sees that."""
    shared = {one.result_id for one in baseline} & {one.result_id for one in candidate} - {""}
    if not shared:
        return baseline, candidate
    then, now = (
        {(one.configuration, _where(one)) for one in side if one.result_id not in shared and one.time_us}
        for side in (baseline, candidate)
    )

    def lost(one: Measured, others: set[tuple[Configuration, Where]]) -> bool:
        return one.result_id in shared and (one.configuration, _where(one)) in others

    return [one for one in baseline if not lost(one, then)], [one for one in candidate if not lost(one, now - then)]


def _where(one: Measured) -> Where:
    return (*one.measuring, one.device)


def pooled(runs: Sequence[Measured]) -> Measured:
    """The newest of some runs of one thing. Where others have its fingerprint, the same programs measured in the same
    way on the same kind of device, they are its trials: what differs between them differs between processes.

    Of those, runs that cannot be believed (a drift, a throttled clock) count only where there are no others. A result
    that is there twice, a folder beside its copy, is one run.
    """
    newest = max(runs, key=_age)
    if newest.status is not Status.PASSED or not newest.fingerprint:
        return newest
    named = {one.result_id or number: one for number, one in enumerate(runs)}
    alike = [one for one in named.values() if one.fingerprint == newest.fingerprint and one.status is Status.PASSED]
    sound = [one for one in alike if one.time_us and not of_one(one)] or alike
    last = max(sound, key=_age)
    times = [one.time_us for one in sound if one.time_us]
    if len(times) < 2 or any(one.trials > 1 for one in sound):
        return last
    clocks = [one.sm_clock_mhz for one in sound if one.sm_clock_mhz]
    return replace(
        last,
        time_us=statistics.median(times),
        low=None,
        high=None,
        samples=sum(one.samples for one in sound),
        trials=len(times),
        trials_rsd=statistics.stdev(times) / statistics.fmean(times),
        sm_clock_mhz=statistics.median(clocks) if clocks else None,
    )


def _age(one: Measured) -> tuple[int, str]:
    return one.started, one.run_id


def nearest(baseline: Sequence[Measured], candidate: Sequence[Measured]) -> str:
    """How the two configurations that are most alike differ: for a message where there is no pair."""
    best: tuple[int, Measured, Measured] | None = None
    for then in baseline[:_LOOKED_AT]:
        for now in candidate[:_LOOKED_AT]:
            apart = len(set(then.configuration) ^ set(now.configuration))
            if best is None or apart < best[0]:
                best = apart, then, now
    if best is None:
        return ""
    old, new = best[1].params, best[2].params
    keys = [key for key in dict.fromkeys([*old, *new]) if old.get(key) != new.get(key)]
    return ", ".join(f"{key} is {old.get(key, 'not given')} and {new.get(key, 'not given')}" for key in keys)


_LOOKED_AT = 200
"""Of each side, for a message."""


def _grouped(side: Iterable[Measured]) -> dict[Configuration, dict[Where, Measured]]:
    runs: dict[Configuration, dict[Where, list[Measured]]] = {}
    for one in side:
        if one.status is not Status.SKIPPED:
            runs.setdefault(one.configuration, {}).setdefault(_where(one), []).append(one)
    for places in runs.values():
        _join_untimed(places)
    return {key: {where: pooled(some) for where, some in places.items()} for key, places in runs.items()}


def _join_untimed(places: dict[Where, list[Measured]]) -> None:
    """A run that failed does not say how it would have been timed: it is beside all that were, in the same place."""
    for where in [where for where in places if not where[1] and len(places) > 1]:
        backend, _, _, device = where
        beside = [one for one in places if one[1] and one[0] == backend and device in ("", one[3])]
        failed = [one for one in places[where] if one.status is not Status.PASSED]
        if beside and len(failed) == len(places[where]):
            for other in beside:
                places[other] += failed
            del places[where]
