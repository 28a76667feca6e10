"""Profilers through whole commands; ``nsys`` with a real Nsight Systems where there is one."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from pathlib import Path

import pytest

from tests.execute.test_sweep import QUICK, results, run

pytestmark = pytest.mark.slow


@pytest.mark.nsys
def test_one_checked_report_per_variant_lies_with_the_results(tmp_path: Path, new_store: str) -> None:
    store = f"tracking.uri={new_store}"
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
    assert [raw["path"] for raw in profile["reports"]] == reports
    assert profile["reports"][0]["bytes"] == found[0].stat().st_size
    tables = {name.removeprefix(reports[0].removesuffix(".nsys-rep")) for name in profile["artifacts"][1:]}
    assert tables == {"_ranges.csv", "_calls.csv"}
    assert {call["kind"] for call in profile["calls"]} == {"os"}
    # A CPU has no figures of a GPU, and none is a zero.
    assert profile["metrics"] == {}
    assert not profile["kernels"] and not profile["categories"] and not profile["gaps"]


@pytest.mark.nsys
def test_one_report_for_all_variants_is_named_by_each(tmp_path: Path) -> None:
    arguments = ("kernel=kv_quant", "scale=smoke", "variants=[fp32,q8]", *QUICK)
    done = run(tmp_path, *arguments, "profiler=nsys", "profiler.reports=experiment", timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = results(tmp_path)
    (path,) = tmp_path.glob("outputs/**/*.nsys-rep")
    for result in (first, second):
        profile = result["profile"]
        assert profile["status"] == "OK", profile["reason"]
        assert profile["ranges"] == ["decode/kv_quant/fp32", "decode/kv_quant/q8"]
        (raw,) = profile["reports"]
        (folder,) = tmp_path.glob(f"outputs/*/*/{result['variant']}")
        assert (folder / raw["path"]).resolve() == path.resolve()


@pytest.mark.nsys
def test_a_program_that_is_not_ours_gets_a_report_of_all_of_it(tmp_path: Path) -> None:
    code = "import numpy, time; time.sleep(0.01); print(numpy.ones(9).sum())"
    program = f'command.argv=[{sys.executable},-c,"{code}"]'
    done = run(tmp_path, "kernel=command", program, "gpu=host", "tracking=none", "profiler=nsys", timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = results(tmp_path)
    profile = result["profile"]
    assert (profile["status"], profile["reason"]) == ("OK", "")
    assert len(list(tmp_path.glob("outputs/**/*.nsys-rep"))) == 1
    assert {call["kind"] for call in profile["calls"]} == {"os"}
    assert profile["metrics"] == {}


def test_a_profiler_that_fails_in_a_sweep_costs_no_timing_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nsys = tmp_path / "nsys"
    nsys.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = --version ]; then echo "NVIDIA Nsight Systems version 2025.1.1.0"; exit 0; fi\n'
        "echo 'FATAL ERROR: the agent is gone' >&2; exit 3\n"
    )
    nsys.chmod(0o755)
    monkeypatch.setenv("RUNNER_NSYS", str(nsys))
    done = run(tmp_path, "kernel=faulty", "kernel.params.N=1000,2000", *QUICK, "profiler=nsys", "-m")
    assert done.returncode == 0, done.stdout + done.stderr
    found = results(tmp_path)
    assert len(found) == 2
    for result in found:
        assert result["status"] == "PASSED"
        assert result["metrics"]["time_us"] > 0
        assert result["profile"]["status"] == "FAILED"
        assert "FATAL ERROR: the agent is gone" in result["profile"]["reason"]
        assert result["profile"]["metrics"] == {}


def test_timeline_and_monitor_need_no_tool_and_are_filed(tmp_path: Path, new_store: str) -> None:
    """One trace with its tables, one series with its table and plot, in the variant's folder and in the store."""
    store = f"tracking.uri={new_store}"
    arguments = [item for item in QUICK if item != "tracking=none"]
    tools = ("profiler=timeline", "profiler.tools=[timeline,monitor]", "profiler.steps=3")
    short = ("profiler.duration_s=0.3", "profiler.interval_s=0.05")
    done = run(tmp_path, "kernel=faulty", *arguments, store, *tools, *short, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = results(tmp_path)
    profile = result["profile"]
    assert profile["status"] == "OK", profile["reason"]
    assert [(use["name"], use["calls"]) for use in profile["kernels"]] == [("faulty_copy", 3)]
    assert (profile["metrics"]["launches_per_step"], profile["ranges"]) == (1, ["decode/faulty/plain"])
    endings = (".trace.json", "_kernels.csv", "_calls.csv", "_gaps.csv", "_monitor.csv", "_monitor.png")
    for ending in endings:
        (name,) = (name for name in profile["artifacts"] if name.endswith(ending))
        (path,) = tmp_path.glob(f"outputs/**/plain/{name}")
        assert path.stat().st_size > 0
    (trace,) = tmp_path.glob("outputs/**/*.trace.json")
    names = [entry["name"] for entry in json.loads(trace.read_text())["traceEvents"]]
    assert [names.count(name) for name in ("faulty_copy", "hostLaunchKernel", "decode/faulty/plain")] == [3, 3, 1]
    sampled = profile["series"]["system/cpu_utilization_percentage"]
    assert len(sampled) == profile["metrics"]["monitor_samples"] >= 2
    with sqlite3.connect(tmp_path / "mlflow.db") as database:
        count = database.execute("select count(*) from metrics where key='system/cpu_utilization_percentage'")
        assert count.fetchone() == (len(sampled),)


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
