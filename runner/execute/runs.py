"""The experiments of a command on this machine: planned, compiled, and run one by one or side by side."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from rich.console import Console

from runner.build.api import build
from runner.build.model import BuildRequest, CompileError, Program
from runner.config.points import write_inputs
from runner.execute import kernel_needs, planning
from runner.execute.about import about
from runner.execute.clocks import locked_clocks
from runner.execute.conversation import ask_devices
from runner.execute.experiment import folder_of
from runner.execute.kernel_sets import Found
from runner.execute.lanes import Lane, Lanes
from runner.execute.planning import Experiment
from runner.execute.single import Single
from runner.execute.targets import Targets
from runner.report.checks import check_line
from runner.report.progress import SweepProgress
from runner.result.model import Result
from runner.worker.client import WorkerDied


class Results(Protocol):
    """Where finished results go; they are on disk by then."""

    results: list[Result]

    def add(self, result: Result, folder: Path) -> None: ...

    def flush(self, force: bool = False) -> None:
        """A moment in which nothing is timed; ``force``: what is there has to be filed now."""
        ...


@dataclass
class Runs:
    """What is to run, in the order of the sweep, and what there is of it so far."""

    experiments: list[Experiment]
    sweep_id: str
    lanes: Lanes
    console: Console
    first: list[Experiment] = field(default_factory=list)
    """What is measured for estimates among ``experiments``, before any of those."""
    built: dict[BuildRequest, Program | CompileError] = field(default_factory=dict)
    _begun: dict[str, Single] = field(default_factory=dict)
    """By the experiment's id."""
    _targets: Targets = field(init=False)
    _finishing: threading.Lock = field(default_factory=threading.Lock)
    """Plots are drawn by one lane at a time: Matplotlib is not made for several."""

    def __post_init__(self) -> None:
        self._targets = Targets(lambda key: ask_devices(self.lanes.pool, key))

    @property
    def all(self) -> list[Experiment]:
        return [*self.first, *self.experiments]

    def plan(self, experiment: Experiment) -> str:
        """Plans one, on devices that are there; what is to be said of the target. Raises ``PlanError`` for a GPU that
        is not here, and ``WorkerDied`` for a device that cannot be opened."""
        settled = self.lanes.settle(experiment.config)
        experiment.point = replace(experiment.point, config=settled)
        target, experiment.devices = self._targets.of(settled)
        planning.plan(experiment, target)
        return target.note

    def plan_needs(self) -> list[str]:
        """Plans what has to be measured for estimates; what is to be said of its targets."""
        first = kernel_needs.needed(self.experiments)
        notes = [self.plan(experiment) for experiment in first]
        self.first = kernel_needs.possible(first, self.experiments)
        self.lanes.prepare(self.all)
        return notes

    def execute(self, results: Results, progress: SweepProgress) -> None:
        """Compiles everything, then runs it."""
        wanted = [request for e in self.all for request in e.requests.values()]
        progress.start("compiling")
        self.built.update(build(wanted))
        for experiment in self.first:
            write_inputs(experiment.point)
        self._run(self.first, results, progress)
        if self.first:
            results.flush(force=True)
        measured = {experiment.point.folder: self._found(experiment) for experiment in self.first}
        for experiment in self.experiments:
            kernel_needs.supply(experiment, measured)
        self._run(self.experiments, results, progress)

    def _found(self, experiment: Experiment) -> list[Found]:
        return kernel_needs.measured(experiment, self._begun[experiment.id].results)

    def _run(self, experiments: Sequence[Experiment], results: Results, progress: SweepProgress) -> None:
        def done(experiment: Experiment, ended: bool) -> None:
            run = self._begun.get(experiment.id)
            if run is None:
                return
            for result in run.results:
                results.add(result, folder_of(experiment, result.variant))
            if ended:
                progress.finish(run.results, experiment.title)
                if self.lanes.files_between:
                    results.flush()

        self.lanes.run(experiments, lambda experiment, lane: self._one(experiment, lane, progress), done)

    def _one(self, experiment: Experiment, lane: Lane, progress: SweepProgress) -> None:
        progress.start(experiment.title)

        def on_event(kind: str, what: str) -> None:
            if lane.stopped():
                raise KeyboardInterrupt
            words = {"waiting": " waits for another experiment on ", "profiling": " under ", "started": " "}
            if kind in words:
                progress.start(f"{experiment.title}{words[kind]}{what}")

        ceilings = lane.ceilings.of(
            experiment, lambda device: progress.start(f"measuring bandwidth and arithmetic of {device}")
        )
        run = Single(experiment, about(self.sweep_id, experiment, ceilings, self.built), on_event)
        self._begun[experiment.id] = run
        try:
            with locked_clocks(experiment, on_event):
                for result in run.measure(self.built, lane.pool, ceilings):
                    self._note_checks(result, progress)
                run.crosscheck(self.built)
            if len(self.all) == 1 and experiment.plan and experiment.plan.shape_line:
                progress.note(experiment.plan.shape_line)
            run.profile(self.built)
        except KeyboardInterrupt:
            run.interrupt()
            raise
        finally:
            with self._finishing:
                run.finish()
        lane.ceilings.keep(experiment, run.results)

    def _note_checks(self, result: Result, progress: SweepProgress) -> None:
        """One line per check, where the command has a single experiment."""
        if len(self.all) == 1:
            for check in result.checks:
                progress.note(check_line(check))


def told(death: WorkerDied) -> str:
    """Why a worker could not be started, with the last thing that it said."""
    lines = death.log.strip().splitlines()
    said = [line for line in lines if "rror:" in line] or lines
    return ": ".join([str(death), *said[-1:]])
