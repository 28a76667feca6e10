"""``profiler=nsys`` through whole commands, with a real Nsight Systems where there is one."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from tests.execute.test_sweep import QUICK, results, run

pytestmark = pytest.mark.slow


@pytest.mark.nsys
def test_one_checked_report_per_variant_lies_with_the_results(tmp_path: Path) -> None:
    store = f"tracking.uri=sqlite:///{tmp_path}/mlflow.db"
    arguments = [item for item in QUICK if item != "tracking=none"]
    done = run(tmp_path, "kernel=faulty", *arguments, store, "profiler=nsys", timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = results(tmp_path)
    profile = result["profile"]
    assert profile["status"] == "OK", profile["reason"]
    assert "decode/faulty/plain" in profile["ranges"]
    reports = [name for name in profile["artifacts"] if name.endswith(".nsys-rep")]
    assert len(reports) == 1
    assert reports[0].startswith("llama3_8b_host_decode_faulty_plain_decode-N1000-fault0_")
    found = list(tmp_path.glob(f"outputs/**/{reports[0]}"))
    assert found and found[0].stat().st_size > 1000
    with sqlite3.connect(tmp_path / "mlflow.db") as database:
        places = [place.removeprefix("file://") for (place,) in database.execute("select artifact_uri from runs")]
    filed = {path.name for place in places for path in Path(place).rglob("*")}
    assert reports[0] in filed


def test_without_nsys_the_timings_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNNER_NSYS", str(tmp_path / "nowhere"))
    done = run(tmp_path, "kernel=faulty", *QUICK, "profiler=nsys")
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = results(tmp_path)
    assert result["profile"]["status"] == "UNAVAILABLE"
    assert result["profile"]["reason"]
    assert result["metrics"]["time_us"] > 0


def test_a_password_reaches_no_file(tmp_path: Path) -> None:
    """A database that nobody answers for: nothing is lost, and nothing tells the password."""
    uri = "tracking.uri=postgresql+psycopg://user:hunter2@127.0.0.1:9/db"
    arguments = [item for item in QUICK if item != "tracking=none"]
    done = run(tmp_path, "kernel=faulty", *arguments, uri, "profiler=nsys", timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hunter2" not in done.stdout + done.stderr
    assert "python -m runner.sync" in done.stdout
    (result,) = results(tmp_path)
    assert result["status"] == "PASSED"
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert b"hunter2" not in path.read_bytes(), path
    assert "hunter2" not in os.environ.get("RUNNER_CACHE", "")
