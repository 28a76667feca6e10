"""One command: plan every point, compile everything, run one experiment after another, report, record."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from runner.build.api import build
from runner.build.model import BuildRequest, CompileError, Program
from runner.config.points import Point, Skipped, write_inputs
from runner.config.secrets import redact_overrides, redact_text
from runner.execute import kernel_needs, planning, resume
from runner.execute.about import about
from runner.execute.ceilings import DeviceCeilings
from runner.execute.conversation import ask_devices
from runner.execute.estimating import page_of
from runner.execute.evidence import keep
from runner.execute.experiment import folder_of
from runner.execute.kernel_sets import Found
from runner.execute.planning import Experiment
from runner.execute.single import Single
from runner.execute.targets import Targets
from runner.exit_codes import FAILED, INTERRUPTED, PASSED, REFUSED
from runner.paths import project_dir
from runner.plan.errors import PlanError
from runner.record.location import TrackingUnavailable, locate
from runner.record.recorder import Recorder
from runner.record.spool import REPORT_FOLDER, Sweep, SweepStatus
from runner.report.bottleneck import headlines
from runner.report.checks import check_line
from runner.report.estimate import print_page
from runner.report.estimate_files import write_comparison
from runner.report.experiment import REPORT
from runner.report.profile import profiled_lines
from runner.report.progress import SweepProgress
from runner.report.summary import write_report
from runner.report.table import print_table
from runner.report.terminal import Terminal
from runner.result.document import DocumentError
from runner.result.model import Result, Status
from runner.worker.client import WorkerDied, WorkerPool, WorkerTimeout


def run(points: Sequence[Point], skipped: Sequence[Skipped], sweep_id: str) -> int:
    """Runs a whole command and returns its exit code. Never raises for what an experiment does."""
    experiments = [Experiment(point) for point in points]
    if experiments and experiments[0].config.dry_run:
        from runner.execute.dry_run import show

        return show(experiments, skipped)
    return Command(experiments, skipped, sweep_id).run()


def run_one(point: Point) -> dict[str, object]:
    """One point under a foreign launcher: a small dict, never an exception."""
    code = run([point], (), point.sweep_id)
    return {"folder": str(point.folder), "exit_code": code}


@dataclass
class Command:
    """The state of one command while it runs."""

    experiments: list[Experiment]
    skipped: Sequence[Skipped]
    sweep_id: str
    console: Console = field(default_factory=lambda: Terminal(highlight=False))
    pool: WorkerPool = field(default_factory=WorkerPool)
    _first: list[Experiment] = field(default_factory=list)
    """What is measured for estimates among ``experiments``, before any of those."""
    _ceilings: DeviceCeilings = field(init=False)
    _built: dict[BuildRequest, Program | CompileError] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._ceilings = DeviceCeilings(self.pool)

    def run(self) -> int:
        """Plan, build, execute, report."""
        for item in self.skipped:
            self._line(f"skipped {' '.join(item.overrides)}: {item.reason}")
        if not self.experiments:
            self._line("every combination was skipped; nothing to run")
            return REFUSED
        tracking = self.experiments[0].config.tracking
        try:
            if tracking.enabled:
                locate(tracking.uri, project_dir())
            self._plan()
        except (PlanError, TrackingUnavailable, WorkerTimeout) as error:
            self.pool.close()
            return self._refuse([str(error)])
        except WorkerDied as death:
            self.pool.close()
            lines = death.log.strip().splitlines()
            said = [line for line in lines if "rror:" in line] or lines
            return self._refuse([": ".join([str(death), *said[-1:]])])
        except KeyboardInterrupt:
            self.pool.discard()
            return INTERRUPTED
        if not self.experiments:
            self.pool.close()
            return PASSED
        refused = [e.refused for e in self.experiments if e.refused]
        if len(refused) == len(self.experiments) and all(s is Status.INVALID_CONFIG for s, _ in refused):
            self.pool.close()
            return self._refuse([message for _, message in refused])
        return self._run_all()

    def _refuse(self, messages: Sequence[str]) -> int:
        for message in dict.fromkeys(messages):
            print(f"error: {message}", file=sys.stderr)
        return REFUSED

    def _line(self, text: str) -> None:
        self.console.print(text, markup=False, soft_wrap=True)

    def _run_all(self) -> int:
        folder = self._folder()
        swept = _swept(self.experiments)
        sweep = Sweep.begin(
            self.sweep_id,
            command=redact_text(" ".join(["python -m runner", *redact_overrides(sys.argv[1:])])),
            swept=list(swept),
            experiments=len(self.experiments),
        )
        recorder = Recorder(self.experiments[0].config.tracking, folder, sweep, project_dir())
        status, problem = SweepStatus.FINISHED, ""
        self._keep_evidence(folder)
        with SweepProgress(len(self._all), self.console) as progress:
            try:
                self._build(progress)
                measured: dict[Path, list[Found]] = {}
                for experiment in self._first:
                    measured[experiment.point.folder] = self._measure_first(experiment, progress, recorder)
                for experiment in self.experiments:
                    kernel_needs.supply(experiment, measured)
                    self._run_experiment(experiment, progress, recorder)
            except KeyboardInterrupt:
                self.pool.discard()
                status = SweepStatus.KILLED
            except DocumentError as error:  # nothing that is measured now could be kept
                status, problem = SweepStatus.FAILED, str(error)
            except BaseException:
                self.pool.discard()
                recorder.finish(SweepStatus.FAILED)
                raise
        self.pool.close()
        if status is SweepStatus.KILLED:
            self._line("interrupted: what was finished is kept")
        if problem:
            self._line(f"stopped: {problem}; what was finished before is kept")
        footer = [
            *(headlines(recorder.results) if len(self._all) == 1 else ()),
            *profiled_lines(recorder.results),
            f"results: {folder}",
            *self._reports(folder),
        ]
        try:
            write_report(recorder.results, folder / REPORT_FOLDER, swept)
            estimates = [e.estimate for e in self.experiments if e.estimate is not None]
            if len(estimates) > 1:
                write_comparison(estimates, folder / REPORT_FOLDER)
        except (DocumentError, OSError) as error:
            footer.append(f"no report: {error}")
        footer += recorder.finish(status)
        if len(self.experiments) == 1 and self.experiments[0].estimate is not None:
            print_page(page_of(self.experiments[0].estimate), footer, self.console)
        else:
            print_table(recorder.results, swept, footer, self.console)
        if status is SweepStatus.KILLED:
            return INTERRUPTED
        return FAILED if problem or any(result.status.failed for result in recorder.results) else PASSED

    def _folder(self) -> Path:
        """The folder of the whole command: a sweep's, or the single job's own."""
        folders = {experiment.point.folder for experiment in self.experiments}
        first = self.experiments[0].point.folder
        return first.parent if len(folders) > 1 or "multirun" in first.parts else first

    def _reports(self, folder: Path) -> list[str]:
        """Where ``report.md`` lies, of each experiment of a sweep."""
        written = [e.point.folder / REPORT for e in self.experiments if (e.point.folder / REPORT).is_file()]
        if len(written) > 1:
            return [f"reports: {folder}/*/{REPORT}"]
        return [f"report: {path}" for path in written]

    @property
    def _all(self) -> list[Experiment]:
        return [*self._first, *self.experiments]

    def _plan(self) -> None:
        targets = Targets(lambda key: ask_devices(self.pool, key))
        notes: dict[str, None] = {}
        for experiment in self.experiments:
            self._plan_one(experiment, targets, notes)
        self._resume()
        first = kernel_needs.needed(self.experiments)
        for experiment in first:
            self._plan_one(experiment, targets, notes)
        self._first = kernel_needs.possible(first, self.experiments)
        for note in notes:
            self._line(note)

    def _resume(self) -> None:
        if resume.asked(self.experiments[0].config):
            left = resume.left(self.experiments, self._folder())
            self._line(left.line)
            self.experiments = left.experiments

    def _plan_one(self, experiment: Experiment, targets: Targets, notes: dict[str, None]) -> None:
        target, experiment.devices = targets.of(experiment.config)
        if target.note:
            notes[target.note] = None
        planning.plan(experiment, target)

    def _measure_first(self, experiment: Experiment, progress: SweepProgress, recorder: Recorder) -> list[Found]:
        """Runs and files what estimates wait for."""
        write_inputs(experiment.point)
        before = len(recorder.results)
        self._run_experiment(experiment, progress, recorder)
        recorder.flush(force=True)
        return kernel_needs.measured(experiment, recorder.results[before:])

    def _build(self, progress: SweepProgress) -> None:
        wanted = [request for e in self._all for request in e.requests.values()]
        progress.start("compiling")
        self._built.update(build(wanted))

    def _keep_evidence(self, folder: Path) -> None:
        try:
            keep(folder, self._all)
        except DocumentError as error:  # a full disk, say: the results themselves will tell
            self._line(f"no evidence: {error}")

    def _run_experiment(self, experiment: Experiment, progress: SweepProgress, recorder: Recorder) -> None:
        progress.start(experiment.title)

        def on_event(kind: str, what: str) -> None:
            words = {"waiting": "waits for another experiment on", "profiling": "under", "started": ""}
            progress.start(f"{experiment.title} {words[kind]} {what}")

        ceilings = self._ceilings.of(
            experiment, lambda device: progress.start(f"measuring the copy and read bandwidth of {device}")
        )
        run = Single(experiment, about(self.sweep_id, experiment, ceilings, self._built), on_event)
        try:
            for result in run.measure(self._built, self.pool, ceilings):
                self._note_checks(result, progress)
            if len(self._all) == 1 and experiment.plan and experiment.plan.shape_line:
                progress.note(experiment.plan.shape_line)
            run.profile(self._built)
        except KeyboardInterrupt:
            run.interrupt()
            raise
        finally:
            try:
                run.finish()
            finally:
                for result in run.results:
                    recorder.add(result, folder_of(experiment, result.variant))
        self._ceilings.keep(experiment, run.results)
        progress.start(experiment.title)
        progress.finish(run.results)
        recorder.flush()

    def _note_checks(self, result: Result, progress: SweepProgress) -> None:
        """One line per check, where the command has a single experiment."""
        if len(self._all) == 1:
            for check in result.checks:
                progress.note(check_line(check))


def _swept(experiments: Sequence[Experiment]) -> tuple[str, ...]:
    """Override keys that differ between the points, slowest first."""
    values: dict[str, set[str]] = {}
    for experiment in experiments:
        for line in experiment.point.overrides:
            key, _, value = line.partition("=")
            values.setdefault(key.lstrip("+"), set()).add(value)
    return tuple(key for key, seen in values.items() if len(seen) > 1)
