"""The recorder in a sweep: batches, a dead tracker, Ctrl-C, tracking off; it never raises."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mlflow import MlflowClient

from runner import sync
from runner.record import database, reading, spool
from runner.record.location import Location
from runner.record.mlflow_store import MlflowStore
from runner.record.recorder import Recorder
from runner.record.selection import Selection
from runner.record.spool import Sweep, SweepStatus
from runner.report.summary import write_report
from runner.result.document import write
from runner.result.model import Result
from tests.record.conftest import SWEEP_ID, Tracking
from tests.record.test_mlflow_store import runs
from tests.synthetic import result, sweep

DEAD = "http://ada:s3cr3t@127.0.0.1:9"


def record(recorder: Recorder, results: list[Result]) -> list[Path]:
    """Writes and adds results, as the driver does; their folders."""
    folders = []
    for index, made in enumerate(results):
        folder = recorder.folder / str(index) / made.variant
        write(made, folder)
        recorder.add(made, folder)
        folders.append(folder)
    return folders


def begin(location: Location, folder: Path, **settings: object) -> Recorder:
    project = location.database.parent.parent
    sweep_info = Sweep.begin(SWEEP_ID, command="python -m runner", swept=["shape.context"])
    return Recorder(Tracking(**settings), folder, sweep_info, project)  # type: ignore[arg-type]


def test_one_run_is_said_to_be_one(location: Location, tmp_path: Path) -> None:
    recorder = begin(location, tmp_path / "s")
    record(recorder, sweep([4096])[:1])
    assert recorder.finish(SweepStatus.FINISHED)[0].startswith("MLflow: 1 run filed under kv_quant in ")


def test_what_another_process_filed_meanwhile_is_said_to_be_there(location: Location, tmp_path: Path) -> None:
    recorder = begin(location, tmp_path / "s", uri=location.uri)
    record(recorder, sweep([4096])[:1])
    assert sync.main([str(tmp_path / "s")]) == 0
    lines = recorder.finish(SweepStatus.FINISHED)
    assert lines[0] == f"MLflow: the runs were filed meanwhile by another process in {location.uri}"
    assert len(runs(location)) == 1


def test_a_sweep_is_filed_with_its_summary(location: Location, tmp_path: Path) -> None:
    recorder = begin(location, tmp_path / "s")
    record(recorder, sweep([4096, 8192]))
    recorder.flush()
    assert runs(location) == []  # not yet due
    write_report(recorder.results, tmp_path / "s" / "report", ["shape.context"])
    lines = recorder.finish(SweepStatus.FINISHED)

    assert len(runs(location)) == 6
    (summary,) = runs(location, "sweeps")
    assert summary.info.status == "FINISHED"
    assert summary.data.tags["mlflow.note.content"].count("| q8 |") == 2
    assert spool.unsent(tmp_path) == []
    assert lines[0] == f"MLflow: 6 runs filed under kv_quant in {location.uri}"
    assert lines[1].endswith("python -m runner.ui")
    assert summary.info.run_id in lines[-1]
    assert recorder.finish(SweepStatus.FINISHED)  # harmless
    assert len(runs(location)) == 6
    client = MlflowClient(tracking_uri=location.uri)
    assert {a.path for a in client.list_artifacts(summary.info.run_id)} >= {"table.md", "table.csv"}


def test_results_are_filed_during_the_sweep_when_due(location: Location, tmp_path: Path) -> None:
    recorder = begin(location, tmp_path / "s", every_s=0.0)
    folders = record(recorder, sweep([4096]))
    recorder.flush()
    assert len(runs(location)) == 3
    assert all(spool.is_filed(folder) for folder in folders)
    recorder.add(result(index=7), tmp_path / "s" / "nowhere")
    recorder.flush()  # its result.json is missing
    lines = recorder.finish(SweepStatus.FINISHED)
    assert len(runs(location)) == 3
    assert lines[0].startswith("MLflow: 3 runs filed")


def test_another_store_is_named_to_the_ui(location: Location, tmp_path: Path) -> None:
    recorder = begin(location, tmp_path / "s", uri=location.uri)
    record(recorder, sweep([4096]))
    ui = shlex.split(recorder.finish(SweepStatus.FINISHED)[1].partition("with: ")[2])
    assert ui == ["python", "-m", "runner.ui", f"uri={location.uri}"]


def test_force_does_not_wait(location: Location, tmp_path: Path) -> None:
    recorder = begin(location, tmp_path / "s", every_s=1e9)
    record(recorder, sweep([4096]))
    recorder.flush(force=True)
    assert len(runs(location)) == 3


def test_ctrl_c_closes_the_summary_as_killed(location: Location, tmp_path: Path) -> None:
    recorder = begin(location, tmp_path / "s")
    record(recorder, sweep([4096]))
    recorder.finish(SweepStatus.KILLED)
    (summary,) = runs(location, "sweeps")
    assert summary.info.status == "KILLED"
    assert spool.read_sweep(tmp_path / "s").status is SweepStatus.KILLED


def test_a_second_ctrl_c_while_filing_leaves_the_rest(
    location: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = begin(location, tmp_path / "s")
    record(recorder, sweep([4096]))

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(MlflowStore, "file", interrupt)
    lines = recorder.finish(SweepStatus.KILLED)
    assert lines[0] == "MLflow: 3 results are unsent: interrupted while filing"


def test_a_dead_tracker_costs_one_attempt_and_loses_nothing(
    location: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = []
    real = MlflowStore.open

    def counted(self: MlflowStore) -> None:
        attempts.append(1)
        real(self)

    monkeypatch.setattr(MlflowStore, "open", counted)
    recorder = begin(location, tmp_path / "s", uri=DEAD, every_s=0.0)
    begun = time.monotonic()
    for _ in range(5):
        record(recorder, sweep([4096]))
        recorder.flush()
    assert len(attempts) == 1
    lines = recorder.finish(SweepStatus.FINISHED)
    assert time.monotonic() - begun < 20
    assert "3 results are unsent" in lines[0]
    assert "does not answer" in lines[0]
    assert f"python -m runner.sync {tmp_path / 's'}" in lines[1]
    assert len(spool.unsent(tmp_path)) == 3
    left = "".join(lines) + "".join(path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file())
    assert "s3cr3t" not in left
    assert "***" in left


def test_a_uri_that_cannot_be_used_ends_nothing(location: Location, tmp_path: Path) -> None:
    recorder = begin(location, tmp_path / "s", uri="ftp://ada:s3cr3t@host")
    record(recorder, sweep([4096]))
    recorder.flush(force=True)
    lines = recorder.finish(SweepStatus.FINISHED)
    assert "tracking.uri=ftp://ada:***@host cannot be used" in lines[0]


def test_a_surprise_in_the_store_ends_nothing(
    location: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def surprise(*_: object) -> None:
        raise ZeroDivisionError("a surprise")

    monkeypatch.setattr(MlflowStore, "file", surprise)
    recorder = begin(location, tmp_path / "s")
    record(recorder, sweep([4096]))
    recorder.flush(force=True)
    assert "ZeroDivisionError: a surprise" in recorder.finish(SweepStatus.FINISHED)[0]


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("spool.unsent", "3 results are"),
        ("filing.gather", "the summary is"),
        ("filing.Filer.summary", "the summary is"),
    ],
)
def test_a_surprise_at_the_end_is_said_and_raises_nothing(
    location: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, left: str
) -> None:
    def surprise(*_: object) -> None:
        raise PermissionError(13, "Permission denied") if where == "spool.unsent" else RuntimeError("a surprise")

    recorder = begin(location, tmp_path / "s")
    record(recorder, sweep([4096]))
    with monkeypatch.context() as patch:
        patch.setattr(f"runner.record.{where}", surprise)
        lines = recorder.finish(SweepStatus.FINISHED)
    assert f"MLflow: {left} unsent: filing failed: " in lines[-2]
    assert "Permission denied" in lines[-2] or "RuntimeError: a surprise" in lines[-2]
    assert recorder.sync_command in lines[-1]
    assert spool.read_sweep(tmp_path / "s").status is SweepStatus.FINISHED


def test_one_broken_document_stops_no_other(location: Location, tmp_path: Path) -> None:
    recorder = begin(location, tmp_path / "s")
    folders = record(recorder, sweep([4096]))
    (folders[0] / "result.json").write_text("{")
    lines = recorder.finish(SweepStatus.FINISHED)
    assert len(runs(location)) == 2
    assert "1 result is unsent: cannot read" in lines[-2]


def test_results_are_kept_without_their_bulk(location: Location, tmp_path: Path) -> None:
    recorder = begin(location, tmp_path / "s", enabled=False)
    record(recorder, sweep([4096]))
    assert recorder.results[0].metrics and not recorder.results[0].samples and not recorder.results[0].config


def test_tracking_off_writes_the_marker_and_imports_no_mlflow(tmp_path: Path, repository: Path) -> None:
    code = f"""
import sys
from pathlib import Path
from runner.record.recorder import Recorder
from runner.record.selection import Selection
from runner.record.spool import Sweep, SweepStatus
from tests.synthetic import result
class Settings: enabled, uri, every_s = False, "", 0.0
recorder = Recorder(Settings(), Path({str(tmp_path)!r}), Sweep.begin("s"))
recorder.add(result(), Path({str(tmp_path)!r}) / "q8")
recorder.flush(force=True)
print(recorder.finish(SweepStatus.FINISHED), "mlflow" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] False"
    marker = json.loads((tmp_path / "sweep.json").read_text())
    assert (marker["tracking"], marker["status"]) == (False, "FINISHED")


def test_a_database_that_is_full_keeps_the_results_for_later(
    location: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite itself says that it is full: it may not grow by a page."""

    def limited(path: Path) -> None:
        quick(path)
        database._PRAGMAS[os.path.realpath(path)] += ("max_page_count=1",)  # SQLite takes the pages there are

    quick = database.quick
    results = sweep([4096])
    for one in results:
        one.warnings = ["x" * 4000]
    folder = tmp_path / "sweep"
    made = begin(location, folder)
    with monkeypatch.context() as patch:
        patch.setattr(database, "quick", limited)
        record(made, results)
        lines = made.finish(SweepStatus.FINISHED)
        assert "results are unsent: no space left for sqlite:///" in lines[-2]
        assert lines[-1].startswith("        nothing is lost; send them later with: python -m runner.sync ")
    left = spool.unsent(folder)
    assert left and all((place / "result.json").is_file() for place in left)

    quick(location.database)
    made._ready().store._client._tracking_client.store.engine.dispose()  # those connections keep the limit
    assert made.finish(SweepStatus.FINISHED) and not spool.unsent(folder)
    runs = [run for batch in reading.runs(location, Selection()) for run in batch]
    assert len(runs) == 4 and {run.status for run in runs} == {"FINISHED"}
