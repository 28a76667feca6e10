"""Stores that cannot be used are told apart before MLflow is asked."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from runner.record import probe
from runner.record.location import TrackingUnavailable, locate


def test_somebody_elses_database_is_no_broken_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As SQLite says it of a write-ahead log whose files it cannot make; root would be let."""

    def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
        raise sqlite3.OperationalError("attempt to write a readonly database")

    monkeypatch.setattr(sqlite3, "connect", connect)
    location = locate(f"sqlite:///{tmp_path}/s.db")
    with pytest.raises(TrackingUnavailable) as refused:
        probe.check_file(location)
    assert str(refused.value) == (
        f"sqlite:///{tmp_path}/s.db cannot be read where its folder cannot be written; copy it to one that can"
    )
