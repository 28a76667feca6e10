"""Any other launcher of Hydra's (joblib, Hydra's own): each job composes by itself and enters at ``runner/task.py``."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.plugins.launcher import Launcher

from runner.config.grammar import line_of
from runner.config.points import Point, Skipped
from runner.config.secrets import redact_text
from runner.config.sweep import SWEEP_ID
from runner.execute.on_node import Answer
from runner.launch import elsewhere
from runner.launch.cluster import Ended


def run(
    points: Sequence[Point],
    skipped: Sequence[Skipped],
    sweep_id: str,
    folder: Path,
    launcher: Launcher,
    batch: int | None,
) -> int:
    """The exit code. ``batch``: jobs that the launcher gets at a time; None = all."""
    return elsewhere.run(points, skipped, sweep_id, folder, HydraCluster(launcher, sweep_id, batch))


class HydraCluster:
    """A launcher waits for its jobs by itself, so that they end a batch at a time. One that raises (a lost worker)
    costs those of its batch that have left nothing, and no other."""

    title = "the launcher"

    def __init__(self, launcher: Launcher, sweep_id: str, batch: int | None) -> None:
        self._launcher = launcher
        self._own = line_of(f"++hydra.job.env_set.{SWEEP_ID}", sweep_id)
        self._batch = batch
        self._left: list[Point] = []

    def submit(self, points: Sequence[Point], folder: Path) -> str:
        self._left = list(points)
        return ""

    def ended(self) -> list[Ended]:
        size = self._batch or len(self._left)
        part, self._left = self._left[:size], self._left[size:]
        jobs = [[*point.overrides, self._own] for point in part]
        try:
            returned = [job.return_value for job in self._launcher.launch(jobs, initial_job_idx=part[0].number)]
        except Exception as error:  # whatever the launcher's library raises
            print(redact_text(traceback.format_exc()), file=sys.stderr)
            lost = f"jobs {part[0].number} to {part[-1].number} did not all come back: {redact_text(str(error))}"
            return [Ended(point, None, lost) for point in part]
        return [_ended(point, value) for point, value in zip(part, returned, strict=True)]

    def state(self) -> str:
        return ""

    def cancel(self) -> None:
        self._left = []

    def close(self) -> None:
        pass


def _ended(point: Point, returned: Mapping[str, Any]) -> Ended:
    try:
        return Ended(point, Answer(**returned))
    except TypeError:  # a job that was refused, or broke
        return Ended(point, None, str(returned.get("message", "the job left no answer")))
