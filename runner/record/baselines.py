"""Runs that are the standard for their GPU: tags of theirs, one run for each configuration and device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from runner.record import measured, reading
from runner.record.filed import Filed
from runner.record.location import Location
from runner.record.mlflow_store import MlflowStore
from runner.record.pruning import STANDARD_TAG
from runner.record.selection import Selection
from runner.result.model import Quality, Status
from runner.verdict.doubt import of_one
from runner.verdict.model import Configuration, Measured
from runner.verdict.noise import Z95, relative_error

NAME_TAG = "baseline_name"
SINCE_TAG = "baseline_since"
TAGS = (STANDARD_TAG, NAME_TAG, SINCE_TAG)
GOOD = (Quality.OK, Quality.L2_RESIDENT)
"""Of a standard. The second is about hot figures, and a verdict is on cold ones."""
WIDEST = 0.25
"""Half the 95 % interval of a standard's time, relative: hardly anything is found against a wider one."""


@dataclass(frozen=True)
class Change:
    """What naming some runs as the standard comes to."""

    chosen: tuple[Filed, ...] = ()
    """The newest of each configuration and device."""
    replaced: tuple[Filed, ...] = ()
    """Those that were it until now."""
    older: tuple[Filed, ...] = ()
    """Good runs that are meant, of which a newer one was chosen."""
    refused: tuple[tuple[Filed, str], ...] = ()
    """With the reason."""


def plan(meant: Iterable[Filed], standing: Iterable[Filed]) -> Change:
    """Pure. ``meant``: runs to be the standard; what holds no result and what was skipped takes no part."""
    best: dict[tuple[str, Configuration], Filed] = {}
    older: list[Filed] = []
    refused: list[tuple[Filed, str]] = []
    for run in sorted(meant, key=lambda run: (run.started, run.run_id)):
        one = measured.of_run(run)
        if one is None or one.status is Status.SKIPPED:
            continue
        if reason := refusal(one):
            refused.append((run, reason))
            continue
        if (earlier := best.get(_key(one))) is not None:
            older.append(earlier)
        best[_key(one)] = run
    chosen = {run.run_id for run in best.values()}
    replaced = [run for run in standing if run.run_id not in chosen and _key_of(run) in best]
    return Change(tuple(best.values()), tuple(replaced), tuple(older), tuple(refused))


def refusal(one: Measured) -> str:
    """Why a run cannot be a standard; empty when it can."""
    if one.status is not Status.PASSED:
        return f"{one.status.value}: {one.message}" if one.message else str(one.status.value)
    if not one.time_us:
        return "it was not timed"
    if not one.device:
        return "it does not say on which device it ran"
    if one.quality not in GOOD:
        return f"its quality is {one.quality.value}"
    return of_one(one) or _too_wide(one)


def _too_wide(one: Measured) -> str:
    if not Z95 * relative_error(one) > WIDEST:  # nor is NaN
        return ""
    return (
        f"its time is only known to lie within {one.low:.4g} and {one.high:.4g} us (95 %): take more trials or samples"
    )


def apply(store: MlflowStore, change: Change, name: str, since: str) -> None:
    """Tags the chosen, then untags those before them. ``since``: ISO 8601. Raises ``TrackingUnavailable``."""
    for run in change.chosen:
        store.untag(run, [NAME_TAG])
        values = {STANDARD_TAG: run.tags["device_name"], SINCE_TAG: since, **({NAME_TAG: name} if name else {})}
        store.tag(run.run_id, values)
    unset(store, change.replaced)


def unset(store: MlflowStore, runs: Iterable[Filed]) -> None:
    """Takes the tags of these runs. Raises ``TrackingUnavailable``."""
    for run in runs:
        store.untag(run, TAGS)


def standing(location: Location, selection: Selection, devices: Sequence[str] = ()) -> list[Filed]:
    """The standards among the runs that are meant, of these devices, of all where none is given; the oldest run first.
    Raises ``TrackingUnavailable``."""
    if devices:
        selection = replace(selection, tags={**selection.tags, STANDARD_TAG: tuple(devices)})
    return [run for batch in reading.runs(location, selection) for run in batch if run.tags.get(STANDARD_TAG)]


def _key(one: Measured) -> tuple[str, Configuration]:
    return one.device, one.configuration


def _key_of(run: Filed) -> tuple[str, Configuration] | None:
    one = measured.of_run(run)
    return None if one is None else _key(one)
