"""The submitting side of a sweep on a cluster: submit, wait, read what the jobs left, file it, report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from runner.config.check_estimate import MEASURED
from runner.config.errors import ConfigError
from runner.config.points import Point, Skipped
from runner.execute import command, gate, resume
from runner.execute.closing import Ending, close
from runner.exit_codes import FAILED, INTERRUPTED, PASSED
from runner.launch import lost
from runner.launch.cluster import Cluster, Ended
from runner.paths import project_dir
from runner.record import spool
from runner.record.location import TrackingUnavailable, locate
from runner.record.recorder import Recorder
from runner.record.spool import SweepStatus
from runner.report.progress import SweepProgress
from runner.report.terminal import Terminal
from runner.result import document
from runner.result.document import DocumentError
from runner.result.model import Result, Status

VISIBLE_S = 20.0
"""What a job wrote on its node before its answer is seen here after this at the latest."""
LOOK_S = 0.5
"""It is looked for this often."""


def run(points: Sequence[Point], skipped: Sequence[Skipped], sweep_id: str, folder: Path, cluster: Cluster) -> int:
    """Runs the points through ``cluster``; the exit code. ``folder`` is the sweep's.
    Raises ``ConfigError`` where it refuses them.

    A dry run and estimates that are arithmetic alone need no cluster.
    """
    if not points or points[0].config.dry_run or all(map(_is_arithmetic, points)):
        return command.run(points, skipped, sweep_id, folder)
    return _Elsewhere(points, skipped, sweep_id, folder, cluster).run()


def _is_arithmetic(point: Point) -> bool:
    return point.config.kernel.kind == "estimate" and point.config.estimate.efficiency != MEASURED


@dataclass
class _Elsewhere:
    points: Sequence[Point]
    skipped: Sequence[Skipped]
    sweep_id: str
    folder: Path
    cluster: Cluster
    console: Console = field(default_factory=lambda: Terminal(highlight=False))
    _refused: list[tuple[Result, Path]] = field(default_factory=list)
    """Held back until something else comes: where every experiment is refused, nothing is filed."""
    _order: dict[str, int] = field(default_factory=dict)
    """Place of each result in the table, by its id."""
    _there: int = 0
    _to_run: int = 0
    _code: int = PASSED
    """The worst of the jobs' exit codes."""
    _lost: bool = False
    """Whether a job was lost, or failed as a whole."""
    _notes: dict[str, None] = field(default_factory=dict)
    """What has been said, each once."""

    def run(self) -> int:
        command.say_skipped(self.skipped, self.points, self.console)
        tracking = self.points[0].config.tracking
        try:
            gate.check(self.points)
            if tracking.enabled:
                locate(tracking.uri, project_dir())
        except (ConfigError, TrackingUnavailable) as error:
            return command.refuse([str(error)])
        # First the marker: whatever happens to this process, runner.sync finds what the jobs leave.
        recorder = Recorder(tracking, self.folder, command.begin(self.sweep_id, self.points), project_dir())
        try:
            try:
                self._line(self.cluster.submit(self.points, self.folder))
            except ConfigError:
                self._unmark()
                raise
            ending = self._collect(recorder)
        finally:
            self.cluster.close()
        return self._end(recorder, ending)

    def _unmark(self) -> None:
        """Nothing has run: there is no sweep to be filed."""
        (self.folder / spool.SWEEP_FILE).unlink(missing_ok=True)

    def _line(self, text: str) -> None:
        if text:
            self.console.print(text, markup=False, soft_wrap=True)

    def _collect(self, recorder: Recorder) -> Ending:
        waiting, kept = len(self.points), False
        with SweepProgress(len(self.points), self.console) as progress:
            try:
                while waiting:
                    progress.start(self.cluster.state())
                    for one in self.cluster.ended():
                        waiting -= 1
                        self._note(one.answer.note if one.answer else "", progress)
                        progress.finish(self._take(one, recorder, progress), _title(one.point))
                        if recorder.results and not kept:
                            command.keep_evidence(recorder.folder, [], self.console)
                            kept = True
                        recorder.flush()
            except KeyboardInterrupt:
                self.cluster.cancel()
                for point in self.points:
                    self._read(point, recorder)
                return Ending(SweepStatus.KILLED)
            except DocumentError as error:
                self.cluster.cancel()
                return Ending(SweepStatus.FAILED, str(error))
            except BaseException:
                self.cluster.cancel()
                recorder.finish(SweepStatus.FAILED)
                raise
        return Ending()

    def _note(self, text: str, progress: SweepProgress) -> None:
        if text and text not in self._notes:
            self._notes[text] = None
            progress.note(text)

    def _take(self, one: Ended, recorder: Recorder, progress: SweepProgress) -> list[Result]:
        """What a job left, and a result for what it did not come to."""
        answer = one.answer
        message = _problem(one)
        if message:
            # Said whatever becomes of its results: where all of them are there, nothing else would tell.
            self._note(message, progress)
            self._lost, self._code = True, max(self._code, FAILED)
            there = [made for made, _ in _left_by(one.point)]
            lost.write(one.point, there, message, one.job or (answer.job if answer else {}))
        if answer is not None:
            self._there += answer.there
            self._to_run += answer.to_run
            self._code = max(self._code, answer.exit_code)
        return self._read(one.point, recorder)

    def _read(self, point: Point, recorder: Recorder) -> list[Result]:
        found = [(made, folder) for made, folder in _left_by(point) if made.id not in self._order]
        for made, folder in found:
            self._order[made.id] = point.number
            if made.status is Status.INVALID_CONFIG and not recorder.results:
                self._refused.append((made, folder))
                continue
            for held in self._refused:
                recorder.add(*held)
            self._refused.clear()
            recorder.add(made, folder)
        return [made for made, _ in found]

    def _end(self, recorder: Recorder, ending: Ending) -> int:
        if resume.asked(self.points[0].config):
            self._line(resume.Left(there=self._there, to_run=self._to_run).line)
        if not recorder.results and self._refused and not self._lost and ending == Ending():
            for _, folder in self._refused:
                (folder / document.FILE_NAME).unlink()
            self._unmark()
            return command.refuse([made.message for made, _ in self._refused])
        for held in self._refused:
            recorder.add(*held)
        if not recorder.results and ending == Ending():
            self._unmark()
            return self._code
        recorder.results.sort(key=lambda made: self._order[made.id])
        code = close(recorder, self.points, ending, self.console)
        return code if code == INTERRUPTED else self._code or code  # what failed counts before what a gate says


def _problem(one: Ended) -> str:
    """What became of a job that did not do all of its work; empty where it did."""
    answer = one.answer
    if answer is None:
        return one.lost or f"job {one.point.number} was lost"
    if answer.message:
        return answer.message
    until = time.monotonic() + VISIBLE_S
    while missing := set(answer.results) - {made.id for made, _ in _left_by(one.point)}:
        if time.monotonic() > until:
            return (
                f"job {one.point.number} ended, and {len(missing)} of its {len(answer.results)} results are not in "
                f"{one.point.folder} after {VISIBLE_S:g} s"
            )
        time.sleep(LOOK_S)
    return ""


def _left_by(point: Point) -> list[tuple[Result, Path]]:
    """What lies below the point's folder of this sweep, in the order in which the job ran it."""
    found: list[tuple[Result, Path]] = []
    for path in spool.results(point.folder):
        try:
            made = document.read(path)
        except DocumentError:  # of another version, or none of ours: it stands for nothing
            continue
        if made.sweep_id == point.sweep_id:
            found.append((made, path.parent))
    return sorted(found, key=lambda one: one[0].started)


def _title(point: Point) -> str:
    """As an experiment's: the family and what the user varied."""
    varied = [line for line in point.shown if not line.startswith("kernel=")]
    return " ".join([point.config.kernel.name, *varied])
