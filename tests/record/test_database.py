"""How connections to SQLite are set up."""

from __future__ import annotations

import sqlite3
from collections import namedtuple
from pathlib import Path

import psutil
import pytest

from runner.record import database
from runner.record.location import Location
from runner.record.mlflow_store import MlflowStore

Mount = namedtuple("Mount", "mountpoint fstype")


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    mounts = [Mount("/", "ext4"), Mount(str(tmp_path), "nfs4"), Mount(str(tmp_path / "local"), "xfs")]
    monkeypatch.setattr(psutil, "disk_partitions", lambda **_: mounts)
    return tmp_path


def test_network_file_systems_are_told_by_the_nearest_mount(network: Path) -> None:
    assert database.on_network(network / "mlruns" / "mlflow.db")
    assert not database.on_network(network / "local" / "mlflow.db")
    assert not database.on_network(Path(str(network) + "-beside") / "mlflow.db")


def test_the_store_uses_a_write_ahead_log(store: MlflowStore, location: Location) -> None:
    store.experiment_id("kv_quant")
    connection = sqlite3.connect(location.database)
    assert connection.execute("pragma journal_mode").fetchone() == ("wal",)
    connection.close()


def test_on_a_network_it_does_not(network: Path) -> None:
    before = dict(database._PRAGMAS)
    database.quick(network / "mlflow.db")
    assert before == database._PRAGMAS
