"""Outcome + plan + config → the complete ``Result`` of one variant."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from runner.backend.nvml import THROTTLED
from runner.execute.about import About
from runner.plan.model import Plan
from runner.plan.target import several
from runner.result import clock
from runner.result.doubts import series_doubts
from runner.result.metrics import Ceilings, main_series, metrics, quality, speedups, timed_metrics
from runner.result.model import Quality, Result, Status
from runner.result.statistics import summarise
from runner.result.trials import of_mode
from runner.worker.protocol import Outcome

CLOCK_SHARE = 0.9
"""A clock above this share of its maximum is not called throttled: at the power limit it moves by a few percent."""


def result(about: About, plan: Plan | None, outcome: Outcome, ceilings: Ceilings, max_rsd: float) -> Result:
    """One variant's result; without a plan (it was refused) only status and message are there."""
    made = Result(
        id=str(uuid.uuid4()),
        kernel=about.kernel,
        variant=outcome.variant,
        status=outcome.status,
        message=outcome.message,
        sweep_id=about.sweep_id,
        experiment_id=about.experiment_id,
        phase=about.phase,
        model=about.model,
        shape=about.shape,
        checks=outcome.checks,
        samples=outcome.series,
        events=outcome.events,
        warnings=list(outcome.warnings),
        names=about.names,
        config=about.config,
        environment=_environment(about, outcome),
        overrides=about.overrides,
        repeat=about.repeat,
        started=outcome.started or clock.now(),
        duration_s=outcome.duration_s,
    )
    if plan is None:
        return made
    variant = next((v for v in plan.variants if v.name == outcome.variant), None)
    made.backend = plan.target.backend
    made.gpu = plan.target.name
    made.model, made.shape = plan.model, plan.shape
    made.baseline = outcome.variant == plan.baseline
    made.params = {
        **plan.params,
        "dtype": variant.dtype if variant else "",
        "variant": outcome.variant,
        "gpu": plan.target.name,
        "model": plan.model,
        "shape": plan.shape,
        "backend": plan.target.backend,
        "seed": plan.seed,
    }
    if plan.sanitize:  # so that it is compared with no run of the same that was not
        made.params["sanitize"] = True
    if len(plan.devices) > 1:  # nor one of several devices with one of another number of them
        made.params["devices"] = len(plan.devices)
    if not plan.source:  # a program or an estimate: it has no arithmetic type, and not always a model or a shape
        made.params = {name: value for name, value in made.params.items() if value != ""}
    if variant is None:
        return made
    made.compute = variant.compute if variant.flops else ""
    used = _devices_used(plan)
    target = several(plan.target, used)
    made.metrics = metrics(variant, outcome.series, outcome.checks, target, ceilings.several(used))
    main = main_series(outcome.series)
    trials = of_mode(outcome.series, main.mode) if main else []
    made.flags = list(dict.fromkeys(flag for item in trials for flag in summarise(item.samples_us).flags))
    made.metrics.update(outcome.metrics)
    made.metrics.update(timed_metrics(plan, variant, made.metrics))
    if outcome.units_per_step > 1 and "time_us" in made.metrics:
        made.metrics["tpot_us"] = made.metrics["time_us"] / outcome.units_per_step
    made.quality, doubts = quality(variant, outcome.series, made.metrics, target, max_rsd, throttled(outcome.state))
    if made.quality is Quality.ABOVE_PEAK and made.status is Status.PASSED:
        made.status, made.message = Status.INCORRECT, doubts.pop(0)  # an error, not a record
    made.warnings += doubts
    made.warnings += series_doubts(trials, made.metrics, max_rsd)
    return made


def _devices_used(plan: Plan) -> int:
    """How many devices' rates the plan has. Virtual devices are one CPU, and no faster for being several."""
    if plan.target.backend == "host":
        return 1
    return len({buffer.device for buffer in plan.buffers}) or 1


def _environment(about: About, outcome: Outcome) -> dict[str, Any]:
    own: dict[str, Any] = {}
    if outcome.state:
        own["gpu_state"] = outcome.state
    if fingerprint := about.fingerprints.get(outcome.variant):
        own["fingerprint"] = fingerprint
    return {**about.environment, **own}


def throttled(state: Mapping[str, Any]) -> frozenset[str]:
    """Reasons why a clock was held down, on any of the GPUs, by more than a tenth of its maximum: a step of several
    GPUs takes as long as the slowest. ``state``: as ``nvml.snapshots`` gives it."""
    slow = [one for one in (state, *state.get("others", {}).values()) if _held_down(one)]
    return THROTTLED & {reason for one in slow for reason in one.get("throttle_reasons", ())}


def _held_down(state: Mapping[str, Any]) -> bool:
    return bool(state.get("sm_clock_mhz", 0) < CLOCK_SHARE * state.get("max_sm_clock_mhz", 0))


def add_speedups(results: Sequence[Result], baseline: str) -> None:
    """Fills ``speedup`` in every passed result of one experiment, where the baseline passed too."""
    passed = {r.variant: r for r in results if r.status is Status.PASSED and "time_us" in r.metrics}
    for name, value in speedups({n: r.metrics["time_us"] for n, r in passed.items()}, baseline).items():
        passed[name].metrics["speedup"] = value
