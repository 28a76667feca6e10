"""``python -m runner.ui``: MLflow's server over a store, on this machine only."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import psutil
import pytest

from runner import export, prune, ui
from runner.record.filing import Filer
from runner.record.location import locate
from runner.record.mlflow_store import MlflowStore
from tests.conftest import copy_store
from tests.record.conftest import spooled
from tests.synthetic import sweep


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_server_listens_here_only_with_one_worker_and_no_jobs(tmp_path: Path) -> None:
    location = locate("postgresql://ada:s3cr3t@db/runs", tmp_path)
    command = ui.command(5001)
    assert command == [
        sys.executable, "-m", "mlflow", "ui", "--host", "127.0.0.1", "--port", "5001", "--workers", "1",
    ]  # fmt: skip
    assert "s3cr3t" not in " ".join(command)
    assert ui.environment(location, {"HOME": "/h"}) == {
        "HOME": "/h",
        "MLFLOW_BACKEND_STORE_URI": "postgresql://ada:s3cr3t@db/runs",
        "MLFLOW_DEFAULT_ARTIFACT_ROOT": f"{tmp_path}/mlruns/artifacts",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }


def test_no_store_yet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ui.main([f"uri=sqlite:///{tmp_path}/none.db"]) == 1
    assert f"there is no store at {tmp_path}/none.db yet: run an experiment first" in capsys.readouterr().err


def test_a_file_that_is_no_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s.db").write_text("not a database, and long enough to be looked at " * 40)
    assert ui.main([f"port={free_port()}", f"uri=sqlite:///{tmp_path}/s.db"]) == 1
    assert (
        capsys.readouterr().err
        == f"error: sqlite:///{tmp_path}/s.db is not a usable SQLite database: file is not a database\n"
    )


def test_a_port_that_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s.db").write_bytes(b"")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert ui.main([f"port={port}", f"uri=sqlite:///{tmp_path}/s.db"]) == 1
    assert f"port {port} cannot be used (Address already in use): choose another" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["5000"], "5000: no such argument"),
        (["prt=5000"], "prt=5000: no such argument; did you mean 'port'?"),
        (["port=http"], "port=http: must be a number"),
        (["port=0"], "from 1 to"),
        (["port=²"], "port=²: must be a number"),
        (["uri=runs"], "tracking.uri=runs cannot be used; allowed: sqlite:///<file>"),
    ],
)
def test_bad_arguments(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert ui.main(words) == 2
    error = capsys.readouterr().err
    assert message in error and ui.USAGE in error


def test_a_server_has_its_own_ui(capsys: pytest.CaptureFixture[str]) -> None:
    assert ui.main(["uri=http://ada:s3cr3t@tracker:5000"]) == 0
    said = capsys.readouterr().out
    assert "http://ada:***@tracker:5000" in said and "s3cr3t" not in said


@pytest.mark.slow
def test_a_real_server_takes_results_over_http_and_stops_in_order(
    tmp_path: Path, ready_database: Path, repository: Path
) -> None:
    local = locate("sqlite:///mlflow.db", tmp_path / "store")
    local.database.parent.mkdir()
    copy_store(ready_database, local.database.parent)
    port = free_port()
    command = [sys.executable, "-m", "runner.ui", f"port={port}", f"uri={local.uri}"]
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    server = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    try:
        assert server.stdout is not None
        assert "serving sqlite:///" in server.stdout.readline()
        assert server.stdout.readline() == f"http://127.0.0.1:{port}  (Ctrl-C stops it)\n"
        family = psutil.Process(server.pid).children(recursive=True)
        listening = {c.laddr.ip for p in family for c in p.net_connections() if c.status == psutil.CONN_LISTEN}
        assert listening == {"127.0.0.1"}
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=30) as answer:
            assert answer.read() == b"OK"

        results = sweep([4096], config={"tracking": {"max_artifact_mb": 5e-5}})
        folders = spooled(tmp_path / "sweep", results)
        remote = Filer(MlflowStore(locate(f"http://127.0.0.1:{port}")))
        sent = remote.results(tmp_path / "sweep", folders)
        assert (len(sent.run_ids), sent.problem) == (3, "")
        store = MlflowStore(local)
        store.open()
        assert [store.file(r, f) for r, f in zip(results, folders, strict=True)] == sent.run_ids
        assert len(list(tmp_path.rglob("artifacts/result.json"))) == 3
        filed = [path.name for path in tmp_path.rglob("artifacts/report.*")]
        assert filed == ["report.nsys-rep.ref.json"] * 3, "by reference, through the server too"

        address = f"uri=http://127.0.0.1:{port}"
        assert export.main([address, f"out={tmp_path}/runs.csv", "variant=q8,fp16", "commit=01234"]) == 0
        assert len((tmp_path / "runs.csv").read_text().splitlines()) == 1 + 2
        old = ("before=2026-03-02", "variant=q8", "dry_run=false")
        assert prune.main([address, *old]) == 0
        assert len(list(tmp_path.rglob("artifacts/result.json"))) == 3, "a folder that a server names is none of ours"
        assert prune.main([f"uri={local.uri}", *old]) == 0
        assert len(list(tmp_path.rglob("artifacts/result.json"))) == 2
    finally:
        server.send_signal(signal.SIGINT)
        rest, _ = server.communicate(timeout=60)
    assert (server.returncode, rest) == (0, "stopped\n")
    deadline = time.monotonic() + 10
    while any(p.is_running() for p in family) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in family)
    shutil.rmtree(tmp_path / "store")
