"""Filing in a real SQLite store: complete, exactly once, safe among processes, and clear when it cannot be done."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.store.artifact.local_artifact_repo import LocalArtifactRepository

from runner.record import fields, mlflow_store
from runner.record.filing import slim
from runner.record.location import Location, TrackingUnavailable, locate
from runner.record.mlflow_store import MlflowStore
from runner.record.spool import Sweep, SweepStatus
from runner.result import clock
from runner.result.document import read
from runner.result.model import INTERRUPTED, KernelUse, RawReport, Status
from tests.record.conftest import SWEEP_ID, spooled
from tests.synthetic import result, sweep


def runs(location: Location, experiment: str = "kv_quant") -> list[Run]:
    client = MlflowClient(tracking_uri=location.uri)
    found = client.get_experiment_by_name(experiment)
    return list(client.search_runs([found.experiment_id])) if found else []


def test_a_run_holds_everything(store: MlflowStore, location: Location, tmp_path: Path) -> None:
    made = result(metrics={"time_us": 12.5, "odd µs[%]": 1.0, "gbps": float("nan")})
    (folder,) = spooled(tmp_path, [made])
    (folder / "nsys").mkdir()
    (folder / "nsys" / "kernels.csv").write_text("a,b\n")
    (folder / ".hidden").write_text("x")
    run_id = store.file(made, folder, ["shape.context"])

    (run,) = runs(location)
    assert run.info.run_id == run_id
    assert run.info.run_name == "q8 T=32768 B=1 H=16 D=128"
    assert run.info.status == "FINISHED"
    assert (run.info.start_time, run.info.end_time) == fields.times(made)
    assert run.data.metrics == {"time_us": 12.5, "odd us_pct_": 1.0, "duration_s": 1.25}
    assert run.data.params == fields.params(made)
    assert run.data.tags.items() >= fields.tags(made).items()
    names = [p.relative_to(Path(location.artifacts)) for p in sorted(Path(location.artifacts).rglob("*.*"))]
    inside = Path("kv_quant", run_id, "artifacts")
    assert names == [inside / "nsys" / "kernels.csv", inside / "report.nsys-rep", inside / "result.json"]


def test_sampled_series_are_histories_however_often_they_are_filed(
    store: MlflowStore, location: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = result()
    made.profile.started = "2026-03-01T12:00:00+00:00"
    made.profile.series = {
        f"system/gpu_{i}_power_usage_watts": [[j / 10, float(j)] for j in range(300)] for i in (0, 1)
    }
    made.profile.kernels = [KernelUse("kv_q8", "attention", 3, 36.0, 12.0, 1.0)]
    (folder,) = spooled(tmp_path, [made])
    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "set_terminated", lambda *_: (_ for _ in ()).throw(OSError(5, "broken")))
        with pytest.raises(TrackingUnavailable):
            store.file(made, folder)
    run_id = store.file(made, folder)
    history = MlflowClient(tracking_uri=location.uri).get_metric_history(run_id, "system/gpu_1_power_usage_watts")
    begun = clock.millis(made.profile.started)
    assert [(p.step, p.timestamp, p.value) for p in history] == [(j, begun + 100 * j, float(j)) for j in range(300)]
    (run,) = runs(location)
    assert "| kv_q8 | attention |" in run.data.tags["mlflow.note.content"]


def test_a_large_file_is_filed_by_reference(store: MlflowStore, location: Location, tmp_path: Path) -> None:
    made = result(config={"tracking": {"max_artifact_mb": 5e-5}})
    (folder,) = spooled(tmp_path, [made])  # result.json is larger, and filed all the same
    (folder / "small.csv").write_text("a,b\n")
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence" / "uncommitted.diff").write_text("x" * 100)
    run_id = store.file(made, folder)
    filed = Path(location.artifacts) / "kv_quant" / run_id / "artifacts"
    assert sorted(path.name for path in filed.iterdir()) == [
        "report.nsys-rep.ref.json",
        "result.json",
        "small.csv",
        "uncommitted.diff",
    ]
    content = (folder / "report.nsys-rep").read_bytes()
    assert json.loads((filed / "report.nsys-rep.ref.json").read_text()) == {
        "host": socket.gethostname(),
        "path": str((folder / "report.nsys-rep").resolve()),
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def test_a_report_shared_with_another_variant_is_filed_by_reference(
    store: MlflowStore, location: Location, tmp_path: Path
) -> None:
    made = result()
    (folder,) = spooled(tmp_path, [made])
    (folder.parent / "fp32").mkdir()
    (folder.parent / "fp32" / "all.nsys-rep").write_bytes(b"nsys")
    made.profile.reports = [RawReport("../fp32/all.nsys-rep", 4, "abc"), RawReport("report.nsys-rep", 100, "def")]
    run_id = store.file(made, folder)
    filed = Path(location.artifacts) / "kv_quant" / run_id / "artifacts"
    assert json.loads((filed / "all.nsys-rep.ref.json").read_text())["sha256"] == "abc"
    assert (filed / "report.nsys-rep").is_file()


def test_a_disk_that_is_full_of_artifacts_leaves_the_result_to_be_filed_later(
    store: MlflowStore, location: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = result()
    (folder,) = spooled(tmp_path, [made])
    real = LocalArtifactRepository.log_artifact

    def full(self: LocalArtifactRepository, file: str, inside: str | None = None) -> None:
        if file.endswith(".nsys-rep"):
            raise OSError(errno.ENOSPC, "No space left on device")
        real(self, file, inside)  # type: ignore[no-untyped-call]

    with monkeypatch.context() as patch:
        patch.setattr(LocalArtifactRepository, "log_artifact", full)
        with pytest.raises(TrackingUnavailable, match="no space left"):
            store.file(made, folder)
    assert read(folder / "result.json").metrics == made.metrics
    store.file(made, folder)
    (run,) = runs(location)
    assert run.info.status == "FINISHED"
    assert list(Path(location.artifacts).glob("kv_quant/*/artifacts/report.nsys-rep"))


def test_filing_twice_gives_one_run(store: MlflowStore, location: Location, tmp_path: Path) -> None:
    results = sweep([4096, 8192])
    folders = spooled(tmp_path, results)
    first = [store.file(r, f) for r, f in zip(results, folders, strict=True)]
    again = MlflowStore(location)  # another process, as it were
    again.open()
    assert [again.file(r, f) for r, f in zip(results, folders, strict=True)] == first
    assert [store.file(r, f) for r, f in zip(results, folders, strict=True)] == first
    assert len(runs(location)) == len(results)


def test_a_result_without_a_sweep_is_filed_once_too(store: MlflowStore, location: Location, tmp_path: Path) -> None:
    made = result(sweep_id="")
    (folder,) = spooled(tmp_path, [made])
    first = store.file(made, folder)
    store.refresh()
    assert store.file(made, folder) == first
    assert len(runs(location)) == 1


@pytest.mark.parametrize("step", ["log_batch", "set_terminated"])
def test_a_run_left_half_way_is_completed(
    store: MlflowStore, location: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    made = result()
    (folder,) = spooled(tmp_path, [made])

    def crash(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, step, crash)
        with pytest.raises(TrackingUnavailable, match="Input/output error"):
            store.file(made, folder)
    assert [run.info.status for run in runs(location)] == ["RUNNING"]
    later = MlflowStore(location)
    later.open()
    later.file(made, folder)
    (run,) = runs(location)
    assert run.info.status == "FINISHED"
    assert run.data.metrics == fields.metrics(made)
    history = MlflowClient(tracking_uri=location.uri).get_metric_history(run.info.run_id, "time_us")
    assert len(history) == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ConnectionError("reset by peer")])
def test_a_request_that_was_carried_out_but_never_answered_makes_no_second_run(
    store: MlflowStore,
    location: Location,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
) -> None:
    made = result()
    (folder,) = spooled(tmp_path, [made])
    real = MlflowClient.create_run

    def unanswered(self: MlflowClient, *arguments: Any) -> None:
        real(self, *arguments)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "create_run", unanswered)
        with pytest.raises((KeyboardInterrupt, TrackingUnavailable)):
            store.file(made, folder)
    store.file(made, folder)
    assert [run.info.status for run in runs(location)] == ["FINISHED"]


def test_more_parameters_than_one_batch_takes(store: MlflowStore, location: Location, tmp_path: Path) -> None:
    made = result(params={f"p{i}": i for i in range(250)}, metrics={f"m{i}": float(i) for i in range(1500)})
    (folder,) = spooled(tmp_path, [made])
    store.file(made, folder)
    (run,) = runs(location)
    assert run.data.params == fields.params(made)
    assert run.data.metrics == fields.metrics(made)


def test_statuses_of_runs(store: MlflowStore, location: Location, tmp_path: Path) -> None:
    made = [
        result(index=0, status=Status.TIMEOUT),
        result(index=1, status=Status.SKIPPED, message=INTERRUPTED),
    ]
    for each, folder in zip(made, spooled(tmp_path, made), strict=True):
        store.file(each, folder)
    found = {run.data.tags["status"]: run.info.status for run in runs(location)}
    assert found == {"TIMEOUT": "FAILED", "SKIPPED": "KILLED"}


def test_the_summary_holds_counts_table_and_compare_link(
    store: MlflowStore, location: Location, tmp_path: Path
) -> None:
    results = [*sweep([4096]), result("fp8", index=9, status=Status.LAUNCH_ERROR)]
    ids = [store.file(r, f) for r, f in zip(results, spooled(tmp_path / "s", results), strict=True)]
    report = tmp_path / "report"
    report.mkdir()
    (report / "table.md").write_text("| variant | time |\n")
    killed = Sweep(SWEEP_ID, "python -m runner", "2026-03-01T12:00:00+00:00", "2026-03-01T12:01:00+00:00")
    killed.status = SweepStatus.KILLED
    run_id = store.file_summary(killed, results, ids[:3], report)
    assert store.file_summary(killed, results, ids[:3], report) == run_id

    (run,) = runs(location, "sweeps")
    assert run.info.status == "KILLED"
    assert run.info.end_time - run.info.start_time == 60_000
    assert run.data.metrics == {"count_passed": 3.0, "count_launch_error": 1.0, "results": 4.0}
    assert run.data.tags["kind"] == "summary"
    assert "| variant | time |" in run.data.tags["mlflow.note.content"]
    assert run.data.tags["compare"].startswith("http://127.0.0.1:5000/#/compare-runs?runs=%5B%22")
    assert all(run_id in run.data.tags["compare"] for run_id in ids[:3])
    assert list(Path(location.artifacts).glob("sweeps/*/artifacts/table.md"))


def test_the_summary_keeps_to_the_limit_of_its_results(store: MlflowStore, location: Location, tmp_path: Path) -> None:
    results = [slim(made) for made in sweep([4096], config={"tracking": {"max_artifact_mb": 5e-5}, "seed": 0})]
    report = tmp_path / "report"
    report.mkdir()
    (report / "table.md").write_text("| variant | time |\n")
    (report / "roofline_h200.html").write_text("a page\n" * 100)
    store.file_summary(Sweep(SWEEP_ID, "python -m runner"), results, [], report)
    (folder,) = Path(location.artifacts).glob("sweeps/*/artifacts")
    assert sorted(path.name for path in folder.iterdir()) == ["roofline_h200.html.ref.json", "table.md"]


_RACE = """
import multiprocessing, sys
from pathlib import Path
import mlflow.store.tracking.sqlalchemy_store  # imported once, before the fork: the race is about the file
from runner.record.location import locate
from runner.record.mlflow_store import MlflowStore

def work(barrier, root):
    barrier.wait()
    store = MlflowStore(locate("", Path(root)))
    store.open()
    sys.stdout.write(f"experiment {store.experiment_id('kv_quant')}\\n")

if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(8)
    processes = [context.Process(target=work, args=(barrier, sys.argv[1])) for _ in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    sys.exit(sum(process.exitcode != 0 for process in processes))
"""


def test_eight_processes_open_a_fresh_store_at_once(tmp_path: Path, repository: Path) -> None:
    command = [sys.executable, "-c", _RACE, str(tmp_path)]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == ["experiment 1"] * 8 + [""]
    assert done.stderr == ""
    left = {p.name for p in (tmp_path / "mlruns").iterdir()} - {"mlflow.db-wal", "mlflow.db-shm"}
    assert left == {".mlflow.db.lock", "mlflow.db"}


def test_a_store_that_was_not_finished_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    location = locate("", tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(TrackingUnavailable, match="no space left"):
            MlflowStore(location).open()
    assert not location.database.exists()
    assert [p.name for p in location.database.parent.iterdir()] == [".mlflow.db.lock"]


def test_a_database_of_another_version_says_what_to_do(location: Location) -> None:
    with sqlite3.connect(location.database) as connection:
        connection.execute("update alembic_version set version_num = 'aaaaaaaaaaaa'")
    connection.close()
    with pytest.raises(TrackingUnavailable, match=r"another MLflow version.*mlflow db upgrade"):
        MlflowStore(location).open()


@pytest.mark.parametrize("content", [b"this is no database at all, only text", b"SQLite format 3\x00" + b"\xff" * 200])
def test_a_file_that_is_no_database_is_refused_at_once(tmp_path: Path, content: bytes) -> None:
    location = locate("sqlite:///store.db", tmp_path)
    location.database.write_bytes(content)
    begun = time.monotonic()
    with pytest.raises(TrackingUnavailable, match=r"store\.db"):
        MlflowStore(location).open()
    assert time.monotonic() - begun < 5


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    with pytest.raises(TrackingUnavailable, match="not a folder we may write to"):
        MlflowStore(locate("", tmp_path)).open()


def test_a_file_where_the_folder_should_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mlruns").write_text("")
    with pytest.raises(TrackingUnavailable, match="not a folder"):
        MlflowStore(locate("", tmp_path)).open()


def test_a_deleted_experiment_says_how_to_bring_it_back(store: MlflowStore, location: Location, tmp_path: Path) -> None:
    made = result()
    (folder,) = spooled(tmp_path, [made])
    client = MlflowClient(tracking_uri=location.uri)
    client.delete_experiment(client.create_experiment("kv_quant"))
    with pytest.raises(TrackingUnavailable, match="mlflow experiments restore --experiment-id 1"):
        store.file(made, folder)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("scheme", ["http", "postgresql"])
def test_a_dead_server_is_noticed_quickly_and_shows_no_password(scheme: str) -> None:
    store = MlflowStore(locate(f"{scheme}://ada:s3cr3t@127.0.0.1:{_free_port()}/x"))
    begun = time.monotonic()
    with pytest.raises(TrackingUnavailable, match="does not answer") as caught:
        store.open()
    assert time.monotonic() - begun < 10
    assert "s3cr3t" not in str(caught.value)


@pytest.fixture
def hanging_server() -> Iterator[tuple[str, list[str]]]:
    """Accepts requests and never answers; their paths."""
    seen: list[str] = []
    stop = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(self.path)
            stop.wait(20)

        do_GET = do_POST

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", seen
    stop.set()
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_hanging_server_is_asked_once(hanging_server: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "7")
    address, seen = hanging_server
    with pytest.raises(TrackingUnavailable, match="does not answer in time"):
        MlflowStore(locate(address)).open()
    assert len(seen) == 1  # asked twice, "create run" would make two runs


def test_mlflow_is_imported_by_opening_only(repository: Path) -> None:
    code = (
        "import sys; import runner.record.recorder, runner.sync, runner.ui, runner.report.table;"
        "print([m for m in ('mlflow', 'sqlalchemy', 'matplotlib', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_no_other_file_imports_mlflow(repository: Path) -> None:
    users = [
        path.relative_to(repository).as_posix()
        for path in (repository / "runner").rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.strip().startswith(("import mlflow", "from mlflow"))
    ]
    assert set(users) == {"runner/record/mlflow_store.py"}
    assert mlflow_store.SUMMARY_EXPERIMENT == "sweeps"


def test_a_locked_store_is_one_line_and_no_traceback(store: MlflowStore, location: Location, tmp_path: Path) -> None:
    store.experiment_id("made")
    code = (
        "import sys; from sqlalchemy import Engine, event\n"
        "from runner.record.location import TrackingUnavailable, locate\n"
        "from runner.record.mlflow_store import MlflowStore\n"
        "def impatient(c, k, statement, values, *more):\n"  # MLflow waits 20 s at each statement
        "    return statement.replace('= 20000', '= 500'), values\n"
        "event.listen(Engine, 'before_cursor_execute', impatient, retval=True)\n"
        "try: store = MlflowStore(locate(sys.argv[1])); store.open(); store.experiment_id('other')\n"
        "except TrackingUnavailable as error: print(error)\n"
    )
    with contextlib.closing(sqlite3.connect(location.database, isolation_level=None)) as other:
        other.execute("begin exclusive")
        done = subprocess.run(
            [sys.executable, "-c", code, location.uri], capture_output=True, text=True, timeout=120, check=False
        )
    assert done.stdout.strip() == (
        f"{location.uri} is locked by another process; send what is left when that has ended"
    )
    assert "Traceback" not in done.stderr
