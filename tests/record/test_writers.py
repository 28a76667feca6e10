"""Sixteen processes that file at once, in SQLite and in PostgreSQL: nothing is lost, nothing is there twice."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.record import fields, reading, spool
from runner.record.location import locate
from runner.record.selection import Selection
from runner.record.spool import Sweep
from runner.result.document import write
from runner.result.model import Result
from tests.postgres import Postgres
from tests.record.writers import SHARED
from tests.synthetic import result

WRITERS = 16


@pytest.fixture
def empty_postgres() -> Iterator[str]:
    """A database in which MLflow has not made its tables yet."""
    server = Postgres()
    yield server.create("fresh")
    server.remove()


def sweeps(root: Path) -> list[Result]:
    """Spooled: two results for each writer, and six that they share."""
    made: list[Result] = []
    for name, number in [*((f"sweep-{writer}", 2) for writer in range(WRITERS)), (SHARED, 6)]:
        spool.write_sweep(Sweep.begin(name), root / name)
        for index in range(number):
            one = result(batch=1 + index, index=len(made), sweep_id=name)
            write(one, root / name / str(index) / one.variant)
            made.append(one)
    return made


def check(uri: str, root: Path, repository: Path) -> None:
    made = sweeps(root)
    command = [sys.executable, str(Path(__file__).with_name("writers.py")), uri, str(root), str(WRITERS)]
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
    runs = [run for batch in reading.runs(locate(uri, root), Selection()) for run in batch]
    assert Counter(run.tags["result_id"] for run in runs) == Counter(one.id for one in made)
    by_id = {run.tags["result_id"]: run for run in runs}
    for one in made:
        run = by_id[one.id]
        assert (run.status, run.params, run.metrics) == ("FINISHED", fields.params(one), fields.metrics(one))
        assert Path(run.artifacts, "result.json").is_file()
    assert all(spool.is_filed(path.parent) for path in spool.results(root))


def test_sqlite(tmp_path: Path, new_store: str, repository: Path) -> None:
    check(new_store, tmp_path / "spool", repository)


@pytest.mark.postgres
def test_postgresql_that_all_of_them_find_empty(tmp_path: Path, empty_postgres: str, repository: Path) -> None:
    check(empty_postgres, tmp_path / "spool", repository)
