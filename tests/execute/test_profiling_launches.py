"""What becomes of the processes that a profiler planned, when something keeps them from being started."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from runner.execute.profiling import _under
from runner.profile.base import Capture, Ended, Launch, Subject
from runner.result.model import Profile


class Planned:
    """Plans a process per capture, each with a scratch folder."""

    name = title = "planned"
    verdict = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def unavailable(self, subject: Subject) -> str:
        return ""

    def launches(self, captures: Sequence[Capture], subject: Subject) -> list[Launch]:
        made = []
        for capture in captures:
            scratch = self._folder / capture.variant
            scratch.mkdir()
            made.append(Launch((capture,), scratch))
        return made

    def collect(self, launch: Launch, ended: Ended) -> list[Profile]:
        launch.scratch.rmdir()
        return [Profile() for _ in launch.captures]


class Interrupted:
    """A subject at whose first run Ctrl-C is pressed."""

    about = Subject("worker", "host")

    def run(self, launch: Launch, timeout_s: float) -> Ended:
        raise KeyboardInterrupt


def test_ctrl_c_leaves_no_scratch_folder_of_processes_not_yet_started(tmp_path: Path) -> None:
    captures = [Capture(name, name, name, tmp_path, "ranges") for name in ("a", "b", "c")]
    with pytest.raises(KeyboardInterrupt):
        _under(Planned(tmp_path), Interrupted(), captures, 1.0, lambda kind, what: None)
    assert not list(tmp_path.iterdir())
