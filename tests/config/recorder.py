"""Stands in for ``runner.execute.command`` and remembers what it was asked to do."""

from __future__ import annotations

import sys
import types
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

import runner.execute
from runner.config.points import Point, Skipped


@dataclass
class Calls:
    """What was asked for, and what is answered."""

    points: list[Point] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    sweep_ids: list[str] = field(default_factory=list)
    single: list[Point] = field(default_factory=list)
    code: int = 0
    raises: BaseException | None = None

    def run(self, points: Sequence[Point], skipped: Sequence[Skipped], sweep_id: str) -> int:
        if self.raises is not None:
            raise self.raises
        self.points += points
        self.skipped += skipped
        self.sweep_ids.append(sweep_id)
        return self.code

    def run_one(self, point: Point) -> dict[str, Any]:
        if self.raises is not None:
            raise self.raises
        self.single.append(point)
        return {"exit_code": self.code}


def replace_execution(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Nothing is planned, built or run while the test lasts."""
    calls = Calls()
    module = types.ModuleType("runner.execute.command")
    module.run = calls.run  # type: ignore[attr-defined]
    module.run_one = calls.run_one  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "runner.execute.command", module)
    monkeypatch.setattr(runner.execute, "command", module, raising=False)
    return calls
