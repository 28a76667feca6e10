"""Filing in a real PostgreSQL: complete, exactly once, one clear line when it is gone, and nothing half-filed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pytest

from runner import export, prune, sync
from runner.record import fields, reading, search, spool
from runner.record.filed import Filed
from runner.record.location import Location, locate
from runner.record.mlflow_store import MlflowStore
from runner.record.recorder import Recorder
from runner.record.selection import Selection
from runner.record.spool import Sweep, SweepStatus
from tests.postgres import PASSWORD, Postgres
from tests.record.conftest import SWEEP_ID, Tracking, spooled
from tests.synthetic import sweep

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A server with a database that MLflow has set up: copying that takes no time."""
    made = Postgres()
    store = MlflowStore(locate(made.create("ready"), tmp_path_factory.mktemp("ready")))
    store.open()
    _hang_up(made)
    yield made
    made.remove()


def _hang_up(server: Postgres) -> None:
    """MLflow keeps its connections; a database that is copied must have none."""
    server.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = 'ready'")


@dataclass
class Place:
    location: Location
    server: Postgres
    folder: Path

    @property
    def runs(self) -> list[Filed]:
        return [run for batch in reading.runs(self.location, Selection()) for run in batch]

    def record(self, folder: Path) -> list[str]:
        """Files three results as a sweep does; the lines for the terminal."""
        made = sweep([4096])
        recorder = Recorder(Tracking(uri=self.location.uri), folder, Sweep.begin(SWEEP_ID), self.folder)
        for one, place in zip(made, spooled(folder, made), strict=True):
            recorder.add(one, place)
        return recorder.finish(SweepStatus.FINISHED)


@pytest.fixture
def place(server: Postgres, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    """A database of the test's own, under a name that hurts."""
    name = f"it's {request.node.name[:30]}"
    uri = server.create(name, "ready").replace(" ", "%20").replace("'", "%27")
    yield Place(locate(uri, tmp_path), server, tmp_path)
    if server.running:
        server.execute(f'drop database "{name}" with (force)')


def test_a_sweep_is_filed_found_exported_and_pruned(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("runner.record.location.project_dir", lambda: place.folder)
    lines = place.record(place.folder / "multirun" / "s")
    assert lines[0].startswith("MLflow: 3 runs filed under kv_quant in postgresql://runner:***@127.0.0.1")
    made = {one.id: one for one in sweep([4096])}
    results = {run.tags["result_id"]: run for run in place.runs if run.tags["kind"] == "result"}
    assert set(results) == set(made)
    for id_, run in results.items():
        assert (run.params, run.metrics) == (fields.params(made[id_]), fields.metrics(made[id_]))
        assert run.tags.items() >= fields.tags(made[id_]).items() and run.status == "FINISHED"
        assert Path(run.artifacts, "report.nsys-rep").is_file()
    (found,) = search.newest(place.location, "kv_quant", {"variant": "q8", "T": "4096"})
    assert found[1].metrics == fields.metrics(made[found[1].id])

    uri = f"uri={place.location.uri}"
    assert export.main([uri, f"out={place.folder}/runs.parquet", "commit=01234567"]) == 0
    assert f"{place.folder}/runs.parquet: 3 runs" in capsys.readouterr().out
    assert prune.main([uri, "kernel=kv_quant", "baselines=true", "before=2026-03-02", "dry_run=false"]) == 0
    assert place.runs == []
    assert place.server.execute("select count(*) from params", _name(place)) == [(0,)]


def test_a_server_that_crashes_in_mid_sweep_loses_nothing_and_gets_each_result_once(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = place.folder / "multirun" / "s"
    real = MlflowStore._finish
    filed: list[object] = []

    def crashing(self: MlflowStore, *given: object) -> str:
        if len(filed) == 1:
            place.server.stop(signal.SIGQUIT)
        filed.append(given)
        return real(self, *given)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(MlflowStore, "_finish", crashing)
        lines = place.record(folder)
    assert lines[1].startswith("MLflow: 2 results are unsent: postgresql://runner:***@127.0.0.1") and len(lines) == 3
    assert PASSWORD not in "".join(lines) and "Traceback" not in "".join(lines)
    again = sync.main([str(folder), f"uri={place.location.uri}"])
    said = capsys.readouterr().err
    assert again == 1 and "does not answer" in said and PASSWORD not in said

    place.server.start()
    assert sorted(run.status for run in place.runs) == ["FINISHED", "RUNNING"]
    assert sync.main([str(folder), f"uri={place.location.uri}"]) == 0
    results = [run for run in place.runs if run.tags["kind"] == "result"]
    assert sorted(run.tags["result_id"] for run in results) == sorted(one.id for one in sweep([4096]))
    assert {run.status for run in place.runs} == {"FINISHED"} and len(place.runs) == 4
    assert not spool.unsent(folder)


def test_a_wrong_password_is_one_line_without_it(place: Place) -> None:
    wrong = Place(locate(place.location.uri.replace(PASSWORD, "hunter2"), place.folder), place.server, place.folder)
    lines = wrong.record(place.folder / "multirun" / "s")
    assert "3 results are unsent" in lines[0] and "password authentication failed" in lines[0]
    assert "hunter2" not in "".join(lines) and place.runs == []


def _name(place: Place) -> str:
    return unquote(place.location.uri.rsplit("/", 1)[-1])
