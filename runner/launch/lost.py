"""Results of jobs that were lost: one for each variant that has none."""

from __future__ import annotations

from dataclasses import replace

from runner.config.points import Point
from runner.execute import planning
from runner.execute.about import about
from runner.execute.assemble import result
from runner.execute.experiment import folder_of
from runner.execute.planning import Experiment
from runner.execute.targets import static_target
from runner.plan.errors import PlanError
from runner.result import document
from runner.result.metrics import Ceilings
from runner.result.model import Result, Status
from runner.worker.protocol import Outcome


def write(point: Point, there: list[Result], message: str, job: dict[str, str]) -> None:
    """Writes a RUNTIME_ERROR for every variant of the point that is not in ``there``. Raises ``DocumentError``.

    They have no fingerprint: which device they would have had nobody knows.
    """
    experiment = Experiment(point, job=job)
    if there:
        experiment.id = there[0].experiment_id
    try:
        planning.plan(experiment, static_target(point.config.gpu))
    except PlanError:
        experiment.plan = None
    plan = experiment.plan
    shared = replace(about(point.sweep_id, experiment, Ceilings(), {}), fingerprints={})
    done = {made.variant for made in there}
    for name in [variant.name for variant in plan.variants] if plan else [""]:
        if name in done:
            continue
        outcome = Outcome(name, Status.RUNTIME_ERROR, message)
        made = result(shared, plan, outcome, Ceilings(), experiment.settings.max_rsd)
        document.write(made, folder_of(experiment, name))
