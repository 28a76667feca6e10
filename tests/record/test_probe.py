"""Stores that cannot be used are told apart before MLflow is asked."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from runner.record import probe, reading
from runner.record.location import TrackingUnavailable, locate
from runner.record.selection import Selection


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


def test_a_database_that_is_no_store_and_one_that_is_damaged(tmp_path: Path) -> None:
    file = tmp_path / "s.db"
    location = locate(f"sqlite:///{file}")
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.execute("create table somebody_elses (name text)")
    with pytest.raises(TrackingUnavailable, match=r"s\.db is a database without MLflow's tables: name another one"):
        list(reading.runs(location, Selection()))
    page = bytearray(file.read_bytes())
    place = page.index(b"somebody_elses")
    page[place : place + 4] = b"\x81\xff\x81\xff"  # no letters in UTF-8
    file.write_bytes(page)
    with pytest.raises(
        TrackingUnavailable, match=r"s\.db is not a usable SQLite database|s\.db is damaged: put a copy"
    ):
        list(reading.runs(location, Selection()))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "(sqlite3.DatabaseError) database disk image is malformed [SQL: SELECT 1]",
            "is damaged: put a copy of it back",
        ),
        ('(psycopg.errors.UndefinedTable) relation "runs" does not exist', "is a database without MLflow's tables"),
        ("(pymysql.err.ProgrammingError) (1146, \"Table 'a.runs' doesn't exist\")", "without MLflow's tables"),
    ],
)
def test_what_databases_say_in_one_line(text: str, said: str) -> None:
    told = probe.explain(locate("postgresql://ann:s3cr3t@db/runs"), RuntimeError(text))
    assert told.startswith("postgresql://ann:***@db/runs ") and said in told and "SQL" not in told.partition(" ")[2]


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("API request to endpoint /api/2.0 failed with error code 403 != 200. Response body: ''", True),
        ("HTTP 401: no such user", True),
        ("INTERNAL_ERROR: run 4018f403 has no parameter 401", False),
    ],
)
def test_a_refusal_is_a_status_and_not_any_number(text: str, refused: bool) -> None:
    told = probe.explain(locate("http://127.0.0.1:5000"), RuntimeError(text))
    assert ("refuses this user" in told) is refused
