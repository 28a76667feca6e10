"""One planned experiment, from compiled programs to results on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from runner.backend.base import BackendError
from runner.backend.nvml import snapshots
from runner.build.host import sanitizer_environment
from runner.build.model import BuildRequest, CompileError, Program
from runner.execute.about import About
from runner.execute.assemble import result
from runner.execute.conversation import Job
from runner.execute.estimating import outcome as estimated
from runner.execute.planning import Experiment
from runner.execute.trials import outcomes_of_trials
from runner.plan.model import WorkloadRef
from runner.program.measured import measure
from runner.result import document
from runner.result.metrics import Ceilings
from runner.result.model import Result, Status
from runner.worker import locks
from runner.worker.client import WorkerKey, WorkerPool
from runner.worker.protocol import Outcome

Built = Mapping[BuildRequest, Program | CompileError]
OnEvent = Callable[[str, str], None]


def folder_of(experiment: Experiment, variant: str) -> Path:
    """Where a variant's result and artifacts lie. A refused experiment has no variant: the job's own folder."""
    return experiment.point.folder / variant if variant else experiment.point.folder


def measured(
    experiment: Experiment,
    built: Built,
    pool: WorkerPool,
    about: About,
    ceilings: Ceilings,
    on_event: OnEvent,
) -> Iterator[Result]:
    """Runs the experiment; each result is on disk before it is yielded."""
    for outcome in outcomes_of(experiment, built, pool, on_event):
        on_event("ended", outcome.variant)
        plan = experiment.plan if outcome.variant else None
        outcome.warnings += _doubts(experiment)
        made = result(about, plan, outcome, ceilings, experiment.settings.max_rsd)
        made.metrics.update(_resources(experiment, built, outcome.variant))
        document.write(made, folder_of(experiment, outcome.variant))
        yield made


def _doubts(experiment: Experiment) -> list[str]:
    """What the reader of a model's file did not understand. An estimate says it itself, with its own doubts."""
    return list(experiment.config.model.notes) if experiment.estimate is None else []


def _resources(experiment: Experiment, built: Built, variant: str) -> dict[str, float]:
    """Launches of a step as the variant declares them; registers per thread and bytes spilled by its kernels, the
    largest. A workload class makes launches of its own, and on host no compiler tells."""
    plan = experiment.plan
    if plan is None or "main" not in experiment.requests:
        return {}
    program = built[experiment.requests["main"]]
    launches = [launch for v in plan.variants if v.name == variant for launch in v.launches]
    if isinstance(program, CompileError) or not launches:
        return {}
    found: dict[str, float] = {}
    if plan.workload == WorkloadRef():
        found["launches"] = float(len(launches))
    used = [program.resources[launch.function] for launch in launches if launch.function in program.resources]
    if used:
        found["registers"] = float(max(one.registers for one in used))
        found["spill_bytes"] = float(max(one.spill_stores + one.spill_loads for one in used))
    return found


def outcomes_of(experiment: Experiment, built: Built, pool: WorkerPool, on_event: OnEvent) -> Iterator[Outcome]:
    """What happens to each variant, whether it can be run or not."""
    if experiment.plan is None:
        status, message = experiment.refused or (Status.INVALID_CONFIG, "not planned")
        yield Outcome("", status, message)
        return
    for name, reason in experiment.left_out.items():
        yield Outcome(name, Status.SKIPPED, reason)
    done = {made.variant for made in experiment.kept}
    plan = replace(experiment.plan, variants=tuple(v for v in experiment.plan.variants if v.name not in done))
    if not plan.variants:
        return
    if experiment.estimate is not None:
        yield estimated(experiment.config, experiment.estimate)
        return
    if plan.command is not None:
        pool.close()  # a worker would keep its part of the device's memory
        yield of_program(experiment, on_event)
        return
    programs = programs_of(experiment, built)
    if isinstance(programs, CompileError):
        for variant in plan.variants:
            yield Outcome(variant.name, Status.COMPILE_ERROR, str(programs))
        return
    job = Job(
        plan=plan,
        programs=programs,
        settings=experiment.settings,
        timeout_s=experiment.config.timeout_s,
        key=worker_key(experiment),
        folder=experiment.point.folder,
        held=experiment.held,
    )
    yield from outcomes_of_trials(pool, job, experiment.config.measure.trials, on_event)


def of_program(experiment: Experiment, on_event: OnEvent) -> Outcome:
    """The measured runs of ``kernel=command``, with the devices' locks held."""
    plan = experiment.plan
    assert plan is not None and plan.command is not None
    name = plan.variants[0].name
    try:
        with locks.hold(experiment.devices, lambda lock: on_event("waiting", lock)):
            on_event("started", name)
            outcome = measure(name, plan.command, experiment.config.timeout_s, folder_of(experiment, name))
    except BackendError as error:
        return Outcome(name, Status.RUNTIME_ERROR, str(error))
    if plan.target.backend == "cuda":
        outcome.state = snapshots([device.uuid for device in experiment.devices])
    return outcome


def programs_of(experiment: Experiment, built: Built) -> dict[str, Path] | CompileError:
    """The compiled programs by unit, or the first error."""
    found: dict[str, Path] = {}
    for unit, request in experiment.requests.items():
        program = built[request]
        if isinstance(program, CompileError):
            return program
        found[unit] = program.path
    return found


def worker_key(
    experiment: Experiment, prefix: tuple[str, ...] = (), environment: Mapping[str, str] | None = None
) -> WorkerKey:
    """Which worker the experiment needs; ``prefix`` and ``environment`` are a profiler's."""
    assert experiment.plan is not None
    variables = dict(experiment.config.environment)
    if experiment.plan.sanitize and experiment.plan.target.backend == "host":
        variables.update(sanitizer_environment())
    variables.update(environment or {})
    return WorkerKey(
        backend=experiment.plan.target.backend,
        devices=experiment.plan.devices,
        environment=tuple(sorted(variables.items())),
        prefix=prefix,
    )
