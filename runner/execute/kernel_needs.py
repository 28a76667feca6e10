"""Estimates that wait for kernels to be measured: what has to run before them, and what becomes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from runner.config.points import Point
from runner.execute import kernel_times, planning
from runner.execute.experiment import folder_of
from runner.execute.kernel_sets import Found
from runner.execute.planning import Experiment
from runner.execute.targets import estimate_gpu
from runner.plan.target import target_of
from runner.record.spool import filed_run
from runner.result.model import Result, Status


def needed(experiments: Sequence[Experiment]) -> list[Experiment]:
    """What measures the kernels that estimates wait for; those of the same kernels share it."""
    points: dict[tuple[str, ...], Point] = {}
    for experiment in experiments:
        if experiment.needs is not None:
            experiment.needs = points.setdefault(experiment.needs.overrides, experiment.needs)
    return [Experiment(point) for point in points.values()]


def possible(first: Sequence[Experiment], experiments: Sequence[Experiment]) -> list[Experiment]:
    """Those of ``first`` that were planned; the estimates that wait for another are refused for its reason."""
    reasons = {one.point.folder: one.refused for one in first if one.refused}
    for experiment in experiments:
        reason = reasons.get(experiment.needs.folder) if experiment.needs else None
        if reason is not None:
            experiment.refused = (reason[0], f"its kernels cannot be measured: {reason[1]}")
            experiment.needs = None
    return [one for one in first if not one.refused]


def measured(experiment: Experiment, results: Sequence[Result]) -> list[Found]:
    """The results of an experiment by their runs, or by their folders where they could not be filed."""
    folders = [folder_of(experiment, result.variant) for result in results]
    runs = map(filed_run, folders)
    return [
        Found(f"run {run}" if run else str(folder), result)
        for run, folder, result in zip(runs, folders, results, strict=True)
    ]


def supply(experiment: Experiment, found: Mapping[Path, Sequence[Found]]) -> None:
    """Plans an estimate that waited, or refuses it where its kernels could not be measured. ``found``: results by the
    folder of their point. Another experiment is left as it is."""
    if experiment.needs is None or experiment.wanted is None:
        return
    folder = experiment.needs.folder
    kernels = kernel_times.of_results(experiment.wanted, found[folder], folder)
    experiment.needs = None
    if isinstance(kernels, str):
        experiment.refused = (Status.RUNTIME_ERROR, f"its kernels could not be measured: {kernels}")
        return
    experiment.kernels = kernels
    planning.plan(experiment, target_of(estimate_gpu(experiment.config)))
