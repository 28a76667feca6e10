"""One command: plan every point, compile everything, run one experiment after another, report, record."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console

from runner.backend.base import DeviceInfo
from runner.backend.nvml import snapshot
from runner.build.api import build
from runner.build.cache import cache_dir
from runner.build.model import BuildRequest, CompileError, Program
from runner.config.dump import plain_config
from runner.config.points import Point, Skipped
from runner.config.secrets import redact_overrides, redact_text
from runner.execute import ceilings as ceiling
from runner.execute import planning, targets
from runner.execute.assemble import About
from runner.execute.conversation import ask_devices
from runner.execute.experiment import finish, folder_of, interrupted, measured, outcomes_of
from runner.execute.planning import Experiment
from runner.execute.profiling import Commit, profile
from runner.paths import project_dir
from runner.plan.errors import PlanError
from runner.plan.model import Target
from runner.record.recorder import Recorder
from runner.record.spool import REPORT_FOLDER, Sweep, SweepStatus
from runner.report.checks import check_line
from runner.report.progress import SweepProgress
from runner.report.summary import write_report
from runner.report.table import print_table
from runner.result.document import DocumentError
from runner.result.environment import collect
from runner.result.metrics import Ceilings, metrics
from runner.result.model import Result, Status
from runner.worker.client import WorkerDied, WorkerKey, WorkerPool, WorkerTimeout

OK, FAILED, BAD_CONFIG, INTERRUPTED = 0, 1, 2, 130
"""Exit codes."""


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
    console: Console = field(default_factory=lambda: Console(highlight=False))
    pool: WorkerPool = field(default_factory=WorkerPool)
    _targets: dict[tuple[str, tuple[int, ...]], tuple[Target, tuple[DeviceInfo, ...]]] = field(default_factory=dict)
    _ceilings: dict[str, Ceilings] = field(default_factory=dict)
    _built: dict[BuildRequest, Program | CompileError] = field(default_factory=dict)

    def run(self) -> int:
        """Plan, build, execute, report."""
        for item in self.skipped:
            self._line(f"skipped {' '.join(item.overrides)}: {item.reason}")
        if not self.experiments:
            self._line("every combination was skipped; nothing to run")
            return BAD_CONFIG
        try:
            self._plan()
        except (PlanError, WorkerDied, WorkerTimeout) as error:
            self.pool.close()
            return self._refuse([str(error)])
        except KeyboardInterrupt:
            self.pool.discard()
            return INTERRUPTED
        refused = [e.refused for e in self.experiments if e.refused]
        if len(refused) == len(self.experiments) and all(s is Status.INVALID_CONFIG for s, _ in refused):
            self.pool.close()
            return self._refuse([message for _, message in refused])
        return self._run_all()

    def _refuse(self, messages: Sequence[str]) -> int:
        for message in dict.fromkeys(messages):
            print(f"error: {message}", file=sys.stderr)
        return BAD_CONFIG

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
        status = SweepStatus.FINISHED
        with SweepProgress(len(self.experiments), self.console) as progress:
            try:
                self._build(progress)
                for experiment in self.experiments:
                    self._run_experiment(experiment, progress, recorder)
            except KeyboardInterrupt:
                self.pool.discard()
                status = SweepStatus.KILLED
            except BaseException:
                self.pool.discard()
                recorder.finish(SweepStatus.FAILED)
                raise
        self.pool.close()
        if status is SweepStatus.KILLED:
            self._line("interrupted: what was finished is kept")
        footer = [f"results: {folder}"]
        try:
            write_report(recorder.results, folder / REPORT_FOLDER, swept)
        except (DocumentError, OSError) as error:
            footer.append(f"no report: {error}")
        footer += recorder.finish(status)
        print_table(recorder.results, swept, footer, self.console)
        if status is SweepStatus.KILLED:
            return INTERRUPTED
        return FAILED if any(result.status.failed for result in recorder.results) else OK

    def _folder(self) -> Path:
        """The folder of the whole command: a sweep's, or the single job's own."""
        folders = {experiment.point.folder for experiment in self.experiments}
        first = self.experiments[0].point.folder
        return first.parent if len(folders) > 1 or "multirun" in first.parts else first

    def _plan(self) -> None:
        notes: dict[str, None] = {}
        for experiment in self.experiments:
            target, experiment.devices = self._target(experiment)
            if target.note:
                notes[target.note] = None
            planning.plan(experiment, target)
        for note in notes:
            self._line(note)

    def _target(self, experiment: Experiment) -> tuple[Target, tuple[DeviceInfo, ...]]:
        config = experiment.config
        devices = tuple(config.devices)
        key = (config.gpu.name, devices)
        if key not in self._targets:
            asked: list[DeviceInfo] = []

            def ask(backend: str, ordinals: tuple[int, ...]) -> list[DeviceInfo]:
                environment = tuple(sorted(config.environment.items()))
                asked[:] = ask_devices(self.pool, WorkerKey(backend, ordinals, environment))
                return asked

            target = targets.resolve(config.gpu, devices, ask)
            self._targets[key] = target, tuple(asked)
        return self._targets[key]

    def _build(self, progress: SweepProgress) -> None:
        wanted = [request for e in self.experiments for request in e.requests.values()]
        progress.start("compiling")
        self._built.update(build(wanted))

    def _run_experiment(self, experiment: Experiment, progress: SweepProgress, recorder: Recorder) -> None:
        progress.start(experiment.title)

        def on_event(kind: str, what: str) -> None:
            words = {"waiting": "waits for another experiment on", "profiling": "under", "started": ""}
            progress.start(f"{experiment.title} {words[kind]} {what}")

        ceilings = self._ceiling(experiment, progress)
        about = _about(self.sweep_id, experiment, ceilings)
        results: list[Result] = []
        try:
            for result in measured(experiment, self._built, self.pool, about, ceilings, on_event):
                results.append(result)
                for check in result.checks:
                    if len(self.experiments) == 1:
                        progress.note(check_line(check))
            programs = self._programs(experiment)
            if programs:
                commit = Commit(str(about.environment.get("git_commit", "")), bool(about.environment.get("git_dirty")))
                profile(experiment, programs, results, commit, on_event)
        except KeyboardInterrupt:
            results += interrupted(experiment, about, [result.variant for result in results])
            raise
        finally:
            finish(experiment, results)
            for result in results:
                recorder.add(result, folder_of(experiment, result.variant))
        self._keep_ceilings(experiment, results)
        progress.start(experiment.title)
        progress.finish(results)
        recorder.flush()

    def _programs(self, experiment: Experiment) -> dict[str, Path]:
        found = {unit: self._built[request] for unit, request in experiment.requests.items()}
        return {unit: p.path for unit, p in found.items() if isinstance(p, Program)}

    def _ceiling(self, experiment: Experiment, progress: SweepProgress) -> Ceilings:
        """Of the experiment's first device: cached on disk, else measured now."""
        if experiment.plan is None or experiment.plan.kernel == ceiling.FAMILY:
            return Ceilings()
        info = experiment.devices[0]
        if info.uuid not in self._ceilings:
            known = ceiling.load(info, cache_dir())
            if known is None:
                progress.start(f"measuring the copy and read bandwidth of {info.name}")
                known = self._measure_ceilings(experiment)
            self._ceilings[info.uuid] = known
        return self._ceilings[info.uuid]

    def _measure_ceilings(self, example: Experiment) -> Ceilings:
        experiment = ceiling.experiment_for(example)
        assert example.plan is not None
        planning.plan(experiment, example.plan.target)
        built = build(experiment.requests.values())
        rates: dict[str, float] = {}
        for outcome in outcomes_of(experiment, built, self.pool, lambda kind, what: None):
            if outcome.status is Status.PASSED and experiment.plan is not None:
                variant = experiment.plan.variant(outcome.variant)
                found = metrics(variant, outcome.series, (), experiment.plan.target, Ceilings())
                rates[outcome.variant] = found["gbps"]
        ceilings = ceiling.from_rates(rates)
        if ceilings is None:
            return Ceilings()
        ceiling.save(example.devices[0], cache_dir(), ceilings)
        return ceilings

    def _keep_ceilings(self, experiment: Experiment, results: Sequence[Result]) -> None:
        if experiment.config.kernel.name == ceiling.FAMILY and experiment.devices:
            rates = {r.variant: r.metrics["gbps"] for r in results if r.status is Status.PASSED}
            found = ceiling.from_rates(rates)
            if found is not None:
                ceiling.save(experiment.devices[0], cache_dir(), found)
                self._ceilings[experiment.devices[0].uuid] = found


def _about(sweep_id: str, experiment: Experiment, ceilings: Ceilings) -> About:
    config, point = experiment.config, experiment.point
    devices = [asdict(info) for info in experiment.devices]
    environment = collect(project_dir(), device=devices[0] if devices else None)
    environment["devices"] = devices
    if experiment.devices and experiment.devices[0].backend == "cuda":
        environment["gpu_state"] = snapshot(experiment.devices[0].uuid)
    environment["ceilings"] = asdict(ceilings)
    if experiment.plan is not None:
        environment["target"] = asdict(experiment.plan.target)
    return About(
        sweep_id=sweep_id,
        experiment_id=experiment.id,
        kernel=config.kernel.name,
        phase=config.kernel.phase,
        model=config.model.name,
        shape=config.shape.name,
        config=plain_config(config),
        overrides=list(point.shown),
        repeat=point.repeat,
        environment=environment,
    )


def _swept(experiments: Sequence[Experiment]) -> tuple[str, ...]:
    """Override keys that differ between the points, slowest first."""
    values: dict[str, set[str]] = {}
    for experiment in experiments:
        for line in experiment.point.overrides:
            key, _, value = line.partition("=")
            values.setdefault(key.lstrip("+"), set()).add(value)
    return tuple(key for key, seen in values.items() if len(seen) > 1)
