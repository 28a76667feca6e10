"""``measure.trials``: every variant measured by several processes one after another, and one outcome made of theirs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from runner.execute.assemble import throttled
from runner.execute.conversation import Job, outcomes
from runner.result.model import Status
from runner.worker.client import WorkerPool
from runner.worker.protocol import Outcome

OnEvent = Callable[[str, str], None]


def outcomes_of_trials(pool: WorkerPool, job: Job, trials: int, on_event: OnEvent) -> Iterator[Outcome]:
    """One outcome per variant, in order, over so many ``trials``.

    A process takes one trial of all variants, since preparing the inputs is what costs: no two trials of a variant
    share one. ``job.timeout_s`` holds for each trial. A variant that does not pass is left out of the trials that
    follow.
    """
    if trials == 1:
        yield from outcomes(pool, job, on_event)
        return
    taken: dict[str, list[Outcome]] = {variant.name: [] for variant in job.plan.variants}
    for trial in range(1, trials + 1):
        left = tuple(v for v in job.plan.variants if all(one.status is Status.PASSED for one in taken[v.name]))
        if not left:
            break
        if trial > 1:
            pool.close()
        told = _telling(on_event, trial, trials)
        with tempfile.TemporaryDirectory(prefix="runner-trial-") as scratch:
            # What a workload leaves beside the result is the first trial's.
            folder = job.folder if trial == 1 else Path(scratch)
            for outcome in outcomes(pool, replace(job, plan=replace(job.plan, variants=left), folder=folder), told):
                for series in outcome.series:
                    series.trial = trial
                taken[outcome.variant].append(outcome)
    for found in taken.values():
        yield merged(found, trials)


def _telling(on_event: OnEvent, trial: int, trials: int) -> OnEvent:
    def told(kind: str, what: str) -> None:
        on_event(kind, f"{what} (trial {trial} of {trials})" if kind == "started" else what)

    return told


def merged(taken: Sequence[Outcome], trials: int) -> Outcome:
    """One variant's trials as one outcome: the series of all of them, the checks and events of the first, the worker's
    own figures as medians where every trial has them; the GPUs' state of the first in which a clock was held down. The
    last one decides whether it passed, for none follows one that did not; its checks are then the ones that are
    kept."""
    first, last = taken[0], taken[-1]
    passed = last.status is Status.PASSED
    names = [name for name in first.metrics if all(name in one.metrics for one in taken)]
    return Outcome(
        variant=first.variant,
        status=last.status,
        message="" if passed else f"trial {len(taken)} of {trials}: {last.message}",
        checks=first.checks if passed or not last.checks else last.checks,
        series=[series for one in taken for series in one.series],
        metrics={name: float(median(one.metrics[name] for one in taken)) for name in names},
        state=next((one.state for one in taken if throttled(one.state)), last.state),
        units_per_step=first.units_per_step,
        events=first.events,
        warnings=list(dict.fromkeys(text for one in taken for text in one.warnings)),
        started=first.started,
        duration_s=sum(one.duration_s for one in taken),
    )
