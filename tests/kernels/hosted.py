"""Running a shipped family end to end on the host backend, at sizes a test chooses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runner.backend.host import HostBackend
from runner.build.api import build, requests
from runner.build.model import Program
from runner.measure.flush import Flusher
from runner.measure.settings import MeasureSettings
from runner.plan.model import Plan
from runner.plan.planner import make_plan
from runner.worker.experiment import Experiment
from runner.worker.protocol import Outcome
from tests.kernels.plans import HOST, SOURCES, config

ONCE = MeasureSettings(modes=("hot",), fixed=1, warmup=1, hot_batch_time_s=1e-6)


def hosted(
    family: str, params: Mapping[str, Any], devices: int = 0, variants: Sequence[str] = ()
) -> tuple[Plan, dict[str, Outcome], dict[str, str]]:
    """The plan, the outcome of every variant in it, and the variants left out with their reasons.

    ``devices``: how many virtual ones the experiment gets; 0 = as many as the family needs.
    """
    wanted = config(family, params)
    wanted.devices = list(range(devices)) or wanted.devices
    wanted.variants = list(variants) or None
    plan, left_out = make_plan(wanted, HOST, [SOURCES])
    backend = HostBackend()
    flushers: dict[int, Flusher] = {}
    opened = [backend.open(ordinal) for ordinal in plan.devices]
    experiment = Experiment(backend, opened, plan, programs(plan), flushers)
    experiment.prepare()
    try:
        return plan, {variant.name: experiment.run(variant.name, ONCE)[0] for variant in plan.variants}, left_out
    finally:
        experiment.close()
        for flusher in flushers.values():
            flusher.close()
        for device in opened:
            device.close()  # its threads' stacks: some thousand mappings, of which a process may have 65530


def programs(plan: Plan) -> dict[str, Path]:
    """Unit → the compiled program."""
    found: dict[str, Path] = {}
    wanted = requests(plan)
    built = build(wanted.values())
    for unit, request in wanted.items():
        program = built[request]
        assert isinstance(program, Program), program
        found[unit] = program.path
    return found


def messages(outcomes: Mapping[str, Outcome]) -> dict[str, str]:
    """Variant → what is wrong with it; empty when all passed."""
    return {name: outcome.message or outcome.status.value for name, outcome in outcomes.items() if not passed(outcome)}


def passed(outcome: Outcome) -> bool:
    return outcome.status.value == "PASSED" and bool(outcome.checks) and all(check.passed for check in outcome.checks)
