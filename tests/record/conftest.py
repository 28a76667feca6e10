"""A MLflow store for every test, made once; and a sweep's folder as a run leaves it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from runner.record import spool
from runner.record.location import Location, locate
from runner.record.mlflow_store import MlflowStore
from runner.record.spool import Sweep
from runner.result.document import write
from runner.result.model import Result
from tests.conftest import copy_store

SWEEP_ID = "2026-03-01_12-00-00_ab12"


@dataclass
class Tracking:
    """The ``tracking`` group, as the recorder takes it."""

    enabled: bool = True
    uri: str = ""
    every_s: float = 30.0


@pytest.fixture
def location(ready_database: Path, weird_path: Path) -> Iterator[Location]:
    """The default store of a project, under a path that hurts."""
    made = locate("", weird_path)
    made.database.parent.mkdir()
    copy_store(ready_database, made.database.parent)
    yield made


@pytest.fixture
def store(location: Location) -> MlflowStore:
    made = MlflowStore(location)
    made.open()
    return made


def spooled(folder: Path, results: Sequence[Result], **values: object) -> list[Path]:
    """A sweep's folder with these results; their folders."""
    spool.write_sweep(Sweep.begin(SWEEP_ID, **values), folder)
    made = []
    for index, result in enumerate(results):
        place = folder / str(index) / result.variant
        write(result, place)
        (place / "report.nsys-rep").write_bytes(b"nsys" * 25)
        made.append(place)
    return made
