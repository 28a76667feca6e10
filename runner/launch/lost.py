"""Results of jobs that were lost: one for each variant that has none."""

from __future__ import annotations

from dataclasses import replace

from runner.config.points import Point
from runner.execute import on_node, planning, resume
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
    """Writes a RUNTIME_ERROR for every variant that the job was to run and that is not in ``there``.
    Raises ``DocumentError``.

    A result of another sweep in the same folder stays. With ``resume`` or ``retry`` only the job knew which variants
    were due: where it did not come to say so, one result stands for the whole experiment. They have no fingerprint, and
    name the GPU that was asked for: which device they would have had nobody knows.
    """
    experiment = Experiment(point, job=job)
    if there:
        experiment.id = there[0].experiment_id
    config = point.config
    try:
        planning.plan(experiment, static_target(config.gpu))
    except PlanError:
        experiment.plan = None
    plan = experiment.plan
    shared = replace(about(point.sweep_id, experiment, Ceilings(), {}), fingerprints={})
    shared.environment.pop("target", None)
    done = {made.variant for made in there}
    for name in _owed(experiment):
        folder = folder_of(experiment, name)
        if name in done or (folder / document.FILE_NAME).exists():
            continue
        outcome = Outcome(name, Status.RUNTIME_ERROR, message)
        made = result(shared, plan if name else None, outcome, Ceilings(), experiment.settings.max_rsd)
        made.gpu, made.backend = config.gpu.name, config.gpu.backend
        if made.params:
            made.params |= {"gpu": made.gpu, "backend": made.backend}
        document.write(made, folder)


def _owed(experiment: Experiment) -> list[str]:
    """The variants that the job was to run; one without a name stands for those that nobody knows."""
    point, plan = experiment.point, experiment.plan
    due = on_node.due(point.folder, point.sweep_id)
    if due is not None:
        return due
    if plan is None or resume.asked(point.config):
        return [""]
    return [variant.name for variant in plan.variants]
