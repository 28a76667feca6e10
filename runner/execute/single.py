"""One experiment from its compiled programs to finished results: measured, profiled, judged, on disk after each."""

from __future__ import annotations

from collections.abc import Iterator

from runner.build.model import CompileError
from runner.diagnose.diagnose import diagnose
from runner.execute import served
from runner.execute.about import About
from runner.execute.assemble import add_speedups, result
from runner.execute.crosscheck import crosscheck
from runner.execute.estimating import page_of
from runner.execute.experiment import Built, OnEvent, folder_of, measured, programs_of
from runner.execute.planning import Experiment
from runner.execute.profiling import Commit, profile
from runner.execute.subject import Profiled, profiled
from runner.report import estimate_files, monitor
from runner.report import experiment as report
from runner.result import document
from runner.result.metrics import Ceilings
from runner.result.model import INTERRUPTED, Result, Status
from runner.worker.client import WorkerPool
from runner.worker.protocol import Outcome


class Single:
    """The run of one experiment; ``results`` holds what there is so far."""

    def __init__(self, experiment: Experiment, about: About, on_event: OnEvent) -> None:
        self.experiment = experiment
        self.results: list[Result] = list(experiment.kept)
        self._about = about
        self._on_event = on_event

    def measure(self, built: Built, pool: WorkerPool, ceilings: Ceilings) -> Iterator[Result]:
        """Each variant's result as it ends."""
        for made in measured(self.experiment, built, pool, self._about, ceilings, self._on_event):
            self.results.append(made)
            yield made

    def crosscheck(self, built: Built) -> None:
        """The second opinion that is asked for, on the variants that passed; as long as the clocks are those of the
        times."""
        subject = self._subject(built) if self.experiment.config.measure.crosscheck else None
        if subject is not None:
            crosscheck(self.experiment, subject, self.results, self._on_event)

    def profile(self, built: Built) -> None:
        """The profilers that are asked for, over the variants that passed."""
        subject = self._subject(built)
        if subject is None:
            return
        commit = Commit(
            str(self._about.environment.get("git_commit", "")), bool(self._about.environment.get("git_dirty"))
        )
        profile(self.experiment, subject, self.results, commit, self._on_event)

    def _subject(self, built: Built) -> Profiled | None:
        """None for an experiment that was refused or does not compile."""
        if self.experiment.plan is None:
            return None
        programs = programs_of(self.experiment, built)
        return None if isinstance(programs, CompileError) else profiled(self.experiment, programs)

    def interrupt(self) -> None:
        """Adds results for the variants that Ctrl-C kept from ending."""
        plan = self.experiment.plan
        if plan is None:
            return
        done = {made.variant for made in self.results}
        for variant in plan.variants:
            if variant.name not in done:
                outcome = Outcome(variant.name, Status.SKIPPED, INTERRUPTED)
                self.results.append(result(self._about, plan, outcome, Ceilings(), self.experiment.settings.max_rsd))

    def finish(self) -> None:
        """Adds what only the whole experiment knows, and writes the results as they are now."""
        if self.experiment.plan is not None:
            add_speedups([*self.results, *self.experiment.before], self.experiment.plan.baseline)
        for made in self.results:
            folder = folder_of(self.experiment, made.variant)
            estimate = self.experiment.estimate
            if estimate is not None:
                if made.status is Status.PASSED:
                    made.artifacts = estimate_files.write(estimate, page_of(estimate), folder)
                continue
            made.diagnosis = diagnose(made, self.experiment.rules)
            made.profile.artifacts += set(monitor.write(made, folder)) - set(made.profile.artifacts)
        if self.experiment.estimate is None:
            served.write(self.results, self.experiment.point.folder)
            report.write(self.results, self.experiment.point.folder, self.experiment.earlier)
        for made in self.results:
            document.write(made, folder_of(self.experiment, made.variant))
