"""What a sweep calls: note each result, file them between experiments or at the end. It never raises."""

from __future__ import annotations

import dataclasses
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from runner.record import links, spool
from runner.record.filing import Filer, slim
from runner.record.location import Location, TrackingUnavailable, locate
from runner.record.mlflow_store import SUMMARY_EXPERIMENT, MlflowStore
from runner.record.spool import Sweep, SweepStatus
from runner.result import clock
from runner.result.document import DocumentError
from runner.result.model import Result


class Settings(Protocol):
    """The ``tracking`` group."""

    enabled: bool
    uri: str
    every_s: float


class Recorder:
    """Marks the sweep's folder, collects its results and files them in batches.

    With ``tracking.enabled=false`` only the marker is written and MLflow is never imported.
    """

    def __init__(self, settings: Settings, folder: Path, sweep: Sweep, project: Path | None = None) -> None:
        self.folder = folder
        self.results: list[Result] = []
        """Every result so far, without samples, events and config."""
        self._settings = settings
        self._pending: list[Path] = []
        self._sent = 0
        self._problem = ""
        self._filer: Filer | None = None
        self._last = time.monotonic()
        self._location: Location | None = None
        if settings.enabled:
            try:
                self._location = locate(settings.uri, project)
            except TrackingUnavailable as error:
                self._problem = str(error)
        shown = self._location.shown if self._location and settings.uri else ""
        command = self._location.scrub(sweep.command) if self._location else sweep.command
        self.sweep = dataclasses.replace(
            sweep, tracking=settings.enabled, tracking_uri=shown, command=command, status=SweepStatus.RUNNING
        )
        self._mark()

    def add(self, result: Result, folder: Path) -> None:
        """Notes a finished result, whose ``result.json`` lies in ``folder``."""
        self.results.append(slim(result))
        self._pending.append(folder)

    def flush(self, force: bool = False) -> None:
        """Files what is pending when ``tracking.every_s`` has passed since the last time. After a problem nothing
        is tried again before ``finish``, so that a dead server costs one attempt, not one per experiment."""
        due = time.monotonic() - self._last >= self._settings.every_s
        if self._location is None or self._problem or not self._pending or not (due or force):
            return
        self._file(budget_s=None if force else max(self._settings.every_s, 1.0), wait_s=1.0)
        self._last = time.monotonic()

    def finish(self, status: SweepStatus) -> list[str]:
        """Closes the sweep and files what is left and the summary, with whatever lies in ``<folder>/report``;
        lines for the terminal. Ctrl-C leaves the rest for ``runner.sync``."""
        self.sweep = dataclasses.replace(self.sweep, status=status, ended=clock.now())
        self._mark()
        if not self._settings.enabled:
            return []
        if self._location is None:
            return self._unsent_lines(len(self._pending), self._problem)
        self._problem = ""
        summary = ""
        try:
            with self._told():
                self._pending = spool.unsent(self.folder)
                self._file(budget_s=None, wait_s=60.0)
                left = len(self._pending)
                if not self._problem and left == 0 and self.results:
                    done = self._ready().summary(self.folder)
                    summary, self._problem = "".join(done.run_ids), done.problem
        except KeyboardInterrupt:
            self._problem = "interrupted while filing"
        return self._lines(summary)

    def _file(self, budget_s: float | None, wait_s: float) -> None:
        with self._told():
            sent = self._ready().results(self.folder, self._pending, self.sweep.swept, budget_s, wait_s)
            self._sent += len(sent.run_ids)
            self._problem = sent.problem
            self._pending = [folder for folder in self._pending if not spool.is_filed(folder)]

    @contextmanager
    def _told(self) -> Iterator[None]:
        """A bug, a library's surprise or a disk's must not end the sweep: it becomes the problem that is said."""
        try:
            yield
        except TrackingUnavailable as error:
            self._problem = str(error)
        except Exception as error:
            self._problem = f"filing failed: {type(error).__name__}: {self._scrubbed(error)}"

    def _ready(self) -> Filer:
        if self._filer is None:
            assert self._location is not None
            self._filer = Filer(MlflowStore(self._location))
        return self._filer

    def _mark(self) -> None:
        try:
            spool.write_sweep(self.sweep, self.folder)
        except DocumentError as error:
            self._problem = str(error)

    def _lines(self, summary: str) -> list[str]:
        lines = []
        assert self._location is not None
        if self._sent:
            kernels = ", ".join(sorted({result.kernel for result in self.results}))
            runs = "1 run" if self._sent == 1 else f"{self._sent} runs"
            lines.append(f"MLflow: {runs} filed under {kernels} in {self._location.shown}")
        elif summary:
            lines.append(f"MLflow: the runs were filed meanwhile by another process in {self._location.shown}")
        if summary:
            if self._location.kind != "server":
                named = f" uri={shlex.quote(self._location.shown)}" if self._settings.uri else ""
                lines.append(f"        look at them with: python -m runner.ui{named}")
            with self._told():
                experiment = self._ready().store.experiment_id(SUMMARY_EXPERIMENT)
                lines.append(f"        table, plots and compare link: {links.run(self._location, experiment, summary)}")
        left = len(self._pending)
        with self._told():
            left = len([folder for folder in self._pending if not spool.is_filed(folder)])
        if left or self._problem:
            lines += self._unsent_lines(left, self._problem)
        return lines

    def _unsent_lines(self, left: int, problem: str) -> list[str]:
        results = "1 result is" if left == 1 else f"{left} results are"
        what = f"{results} unsent" if left else "the summary is unsent"
        return [f"MLflow: {what}: {problem}", f"        nothing is lost; send them later with: {self.sync_command}"]

    @property
    def sync_command(self) -> str:
        """What sends the rest. A password is not kept: it has to be put back."""
        command = f"python -m runner.sync {shlex.quote(str(self.folder))}"
        if self._location and self._location.shown != self._location.uri:
            command += f" uri={shlex.quote(self._location.shown)}  (with the password instead of the stars)"
        return command

    def _scrubbed(self, error: Exception) -> str:
        text = " ".join(str(error).split())
        return self._location.scrub(text) if self._location else text
