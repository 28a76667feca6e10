"""One command: plan every point, compile everything, run the experiments, report, record."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from runner.backend.base import BackendError
from runner.build import cache
from runner.build.model import CacheError
from runner.config.errors import ConfigError
from runner.config.points import Point, Skipped
from runner.config.secrets import redact_overrides, redact_text
from runner.execute import gate, resume
from runner.execute.closing import Ending, close, swept
from runner.execute.evidence import keep
from runner.execute.lanes import InTurn, Lanes
from runner.execute.planning import Experiment
from runner.execute.runs import Runs, told
from runner.exit_codes import INTERRUPTED, PASSED, REFUSED
from runner.paths import project_dir
from runner.plan.errors import PlanError
from runner.record.location import TrackingUnavailable, locate
from runner.record.recorder import Recorder
from runner.record.spool import Sweep, SweepStatus
from runner.report.progress import SweepProgress
from runner.report.terminal import Terminal
from runner.result.document import DocumentError
from runner.result.model import Status
from runner.worker import locks
from runner.worker.client import WorkerDied, WorkerTimeout


def run(
    points: Sequence[Point],
    skipped: Sequence[Skipped],
    sweep_id: str,
    folder: Path,
    lanes: Lanes | None = None,
    line: str = "",
) -> int:
    """Runs a whole command and returns its exit code. Never raises for what an experiment does.

    ``folder``: the whole command's, a sweep's or the only point's own.
    ``lanes``: who runs the experiments; None = one after another, on the devices that they name.
    ``line``: what the user gave; empty = this process's arguments to ``python -m runner``.
    """
    try:
        gate.check(points)
    except ConfigError as error:
        return refuse([str(error)])
    experiments = [Experiment(point) for point in points]
    if experiments and experiments[0].config.dry_run:
        from runner.execute.dry_run import show

        return show(experiments, skipped)
    return Command(experiments, skipped, sweep_id, folder, lanes or InTurn(), line).run()


@dataclass
class Command:
    """The state of one command while it runs."""

    experiments: list[Experiment]
    skipped: Sequence[Skipped]
    sweep_id: str
    folder: Path
    lanes: Lanes
    line: str = ""
    console: Console = field(default_factory=lambda: Terminal(highlight=False))
    _runs: Runs = field(init=False)

    def __post_init__(self) -> None:
        self._runs = Runs(self.experiments, self.sweep_id, self.lanes, self.console)

    def run(self) -> int:
        """Plan, build, execute, report."""
        if not say_skipped(self.skipped, self.experiments, self.console):
            return REFUSED
        tracking = self.experiments[0].config.tracking
        try:
            if tracking.enabled:
                locate(tracking.uri, project_dir())
            self._plan()
            self._prepare_places()
        except (PlanError, TrackingUnavailable, WorkerTimeout, BackendError, CacheError) as error:
            self.lanes.close()
            return refuse([str(error)])
        except WorkerDied as death:
            self.lanes.close()
            return refuse([told(death)])
        except KeyboardInterrupt:
            self.lanes.discard()
            return INTERRUPTED
        left = self._runs.experiments
        if not left:
            self.lanes.close()
            return PASSED
        refused = [e.refused for e in left if e.refused]
        if len(refused) == len(left) and all(s is Status.INVALID_CONFIG for s, _ in refused):
            self.lanes.close()
            return refuse([message for _, message in refused])
        return self._run_all()

    def _plan(self) -> None:
        notes = [self._runs.plan(experiment) for experiment in self.experiments]
        if resume.asked(self.experiments[0].config):
            left = resume.left(self.experiments, self.folder)
            self.console.print(left.line, markup=False, soft_wrap=True)
            self._runs.experiments = left.experiments
        notes += self._runs.plan_needs()
        for note in dict.fromkeys(filter(None, notes)):
            self.console.print(note, markup=False, soft_wrap=True)

    def _prepare_places(self) -> None:
        """What every experiment on a device needs of this machine. Raises ``BackendError``, ``CacheError``."""
        if any(experiment.devices for experiment in self._runs.all):
            locks.folder()
            cache.prepare()

    def _points(self) -> list[Point]:
        return [experiment.point for experiment in self._runs.experiments]

    def _run_all(self) -> int:
        runs, folder = self._runs, self.folder
        sweep = begin(self.sweep_id, self._points(), self.line)
        recorder = Recorder(runs.experiments[0].config.tracking, folder, sweep, project_dir())
        ending = Ending()
        keep_evidence(folder, runs.all, self.console)
        with SweepProgress(len(runs.all), self.console) as progress:
            try:
                runs.execute(recorder, progress)
            except KeyboardInterrupt:
                self.lanes.discard()
                ending = Ending(SweepStatus.KILLED)
            except DocumentError as error:  # nothing that is measured now could be kept
                ending = Ending(SweepStatus.FAILED, str(error))
            except BaseException:
                self.lanes.discard()
                recorder.finish(SweepStatus.FAILED)
                raise
        self.lanes.close()
        order = {experiment.id: place for place, experiment in enumerate(runs.all)}
        recorder.results.sort(key=lambda result: order[result.experiment_id])
        estimates = [e.estimate for e in runs.experiments if e.estimate is not None]
        page = estimates[0] if estimates and len(runs.experiments) == 1 else None
        return close(recorder, [e.point for e in runs.all], ending, self.console, estimates, page)


def say_skipped(skipped: Sequence[Skipped], left: Sequence[object], console: Console) -> bool:
    """Says what is left out; False where that is everything."""
    for item in skipped:
        console.print(f"skipped {' '.join(item.overrides)}: {item.reason}", markup=False, soft_wrap=True)
    if not left:
        console.print("every combination was skipped; nothing to run")
    return bool(left)


def refuse(messages: Sequence[str]) -> int:
    """Each message once, as an error; the exit code."""
    for message in dict.fromkeys(messages):
        print(f"error: {message}", file=sys.stderr)
    return REFUSED


def begin(sweep_id: str, points: Sequence[Point], line: str = "") -> Sweep:
    """The sweep that this command is, beginning now. ``line``: see ``run``."""
    return Sweep.begin(
        sweep_id,
        command=redact_text(line or " ".join(["python -m runner", *redact_overrides(sys.argv[1:])])),
        swept=list(swept(points)),
        experiments=len(points),
    )


def keep_evidence(folder: Path, experiments: Sequence[Experiment], console: Console) -> None:
    """What all results share, in the command's folder; that it could not be written is said."""
    try:
        keep(folder, experiments)
    except DocumentError as error:  # a full disk, say: the results themselves will tell
        console.print(f"no evidence: {error}", markup=False, soft_wrap=True)
