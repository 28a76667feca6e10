"""One small experiment on the host backend: planned, compiled, checked, timed once, checked again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runner.backend.host import HostBackend
from runner.build.api import build, requests
from runner.build.model import Program
from runner.measure.flush import Flusher
from runner.measure.settings import MeasureSettings
from runner.plan.model import Plan
from runner.worker.experiment import Experiment
from runner.worker.protocol import Outcome
from tests.kernels.plans import HOST, plan

SETTINGS = MeasureSettings(modes=("cold",), fixed=1, warmup=1)


def programs(made: Plan) -> dict[str, Path]:
    wanted = requests(made)
    built = build(wanted.values())
    found: dict[str, Path] = {}
    for unit, request in wanted.items():
        program = built[request]
        assert isinstance(program, Program), program
        found[unit] = program.path
    return found


def outcomes(family: str, params: Mapping[str, Any]) -> dict[str, Outcome]:
    """Every variant of the family at these parameters, by name."""
    made = plan(family, params, HOST)
    backend = HostBackend()
    flushers: dict[int, Flusher] = {}
    experiment = Experiment(backend, [backend.open(0)], made, programs(made), flushers)
    try:
        experiment.prepare()
        return {variant.name: experiment.run(variant.name, SETTINGS)[0] for variant in made.variants}
    finally:
        experiment.close()
        for flusher in flushers.values():
            flusher.close()


def failures(found: Mapping[str, Outcome]) -> dict[str, str]:
    """Variant → status and message of those that did not pass; a check that ran over no rows did not either."""
    wrong = {name: f"{one.status}: {one.message}" for name, one in found.items() if one.status != "PASSED"}
    empty = {name: "nothing was checked" for name, one in found.items() if not all(c.rows_checked for c in one.checks)}
    return {**empty, **wrong}
