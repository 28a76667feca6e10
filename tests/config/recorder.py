"""Stands in for what runs points, of a whole command or as one job, and remembers what it was asked to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from runner.config.points import Point, Skipped
from runner.execute import command, on_node
from runner.execute.on_node import Answer


@dataclass
class Calls:
    """What was asked for, and what is answered."""

    points: list[Point] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    sweep_ids: list[str] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    """Of the whole commands."""
    single: list[Point] = field(default_factory=list)
    code: int = 0
    raises: BaseException | None = None

    def run(self, points: Sequence[Point], skipped: Sequence[Skipped], sweep_id: str, folder: Path) -> int:
        if self.raises is not None:
            raise self.raises
        self.points += points
        self.skipped += skipped
        self.sweep_ids.append(sweep_id)
        self.folders.append(folder)
        return self.code

    def run_one(self, point: Point, sweep_folder: Path, job: Mapping[str, str]) -> Answer:
        if self.raises is not None:
            raise self.raises
        self.single.append(point)
        return Answer(point.sweep_id, self.code, job=dict(job))


def replace_execution(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Nothing is planned, built or run while the test lasts."""
    calls = Calls()
    monkeypatch.setattr(command, "run", calls.run)
    monkeypatch.setattr(on_node, "run_one", calls.run_one)
    return calls
