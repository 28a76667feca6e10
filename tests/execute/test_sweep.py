"""Whole commands on the host backend: what a user types, what comes out, and what survives a fault."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from runner.cli import main
from runner.result import document
from tests.commands import COMMANDS

FAMILIES = Path(__file__).resolve().parents[1] / "families"
ROOT = Path(__file__).resolve().parents[2]
QUICK = ("gpu=host", "measure=quick", "tracking=none", "measure.host.max_time_s=0.2")


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "runner", "--config-dir", str(FAMILIES), *arguments]


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "RUNNER_LOCKS": str(folder / "locks"), "COLUMNS": "160"}


def run(folder: Path, *arguments: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    return COMMANDS.run(["--config-dir", str(FAMILIES), *arguments], folder, environment(folder), timeout)


def results(folder: Path) -> list[dict[str, Any]]:
    """Every result the commands left, in order of their start."""
    paths = [path for root in ("outputs", "multirun") for path in (folder / root).rglob("result.json")]
    found = [json.loads(path.read_text()) for path in paths]
    return sorted(found, key=lambda result: (result["started"], result["variant"]))


def test_a_sweep_of_ten_with_five_faults_keeps_the_other_five(tmp_path: Path) -> None:
    faults = "kernel.params.fault=0,1,10,2,11,3,12,4,13,5"
    done = run(tmp_path, "kernel=faulty", faults, *QUICK, "timeout_s=4", "-m")
    assert done.returncode == 1, done.stdout + done.stderr
    by_fault = {result["config"]["kernel"]["params"]["fault"]: result for result in results(tmp_path)}
    statuses = {fault: result["status"] for fault, result in by_fault.items()}
    assert statuses == {
        0: "PASSED",
        1: "RUNTIME_ERROR",
        10: "PASSED",
        2: "TIMEOUT",
        11: "PASSED",
        3: "INCORRECT",
        12: "PASSED",
        4: "COMPILE_ERROR",
        13: "PASSED",
        5: "OUT_OF_MEMORY",
    }
    advice = {
        1: "sanitize=true",
        2: "timeout_s=4",
        3: "faulty_copy",
        4: "this family was told not to compile",
        5: "Reduce batch or context",
    }
    for fault, words in advice.items():
        assert words in by_fault[fault]["message"]
        assert words.split()[0] in done.stdout
    assert Counter(statuses.values())["PASSED"] == 5


@pytest.mark.parametrize(("fault", "words"), [(6, "nan"), (7, "never written")])
def test_an_output_that_is_not_there_is_incorrect(tmp_path: Path, fault: int, words: str) -> None:
    done = run(tmp_path, "kernel=faulty", f"kernel.params.fault={fault}", *QUICK)
    assert done.returncode == 1
    (result,) = results(tmp_path)
    assert result["status"] == "INCORRECT"
    assert words in result["message"].lower()
    assert "time_us" not in result["metrics"]


def test_two_devices_exchange_and_wait_for_each_other(tmp_path: Path) -> None:
    done = run(tmp_path, "kernel=exchange", "devices=[0,1]", *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = results(tmp_path)
    assert result["status"] == "PASSED"
    assert {check["name"] for check in result["checks"]} == {"exchange_sum0", "exchange_sum1"}


def test_more_devices_than_there_are_is_one_line_that_names_the_option(tmp_path: Path) -> None:
    done = run(tmp_path, "kernel=exchange", "devices=[0,1,2]", *QUICK)
    assert done.returncode == 2 and not results(tmp_path)
    assert done.stderr == (
        "error: devices=[0, 1, 2]: no host device 2: there are 2 (0 to 1); the environment's RUNNER_HOST_DEVICES says "
        "how many, up to 64\n"
    )


def test_an_illegal_access_is_named_by_the_sanitizer(tmp_path: Path) -> None:
    done = run(tmp_path, "kernel=faulty", "kernel.params.fault=1", "sanitize=true", *QUICK)
    assert done.returncode == 1
    (result,) = results(tmp_path)
    assert result["status"] == "RUNTIME_ERROR"
    assert "faulty_copy" in result["message"]
    assert "faulty.cu" in result["message"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_keep_what_is_finished(tmp_path: Path, number: signal.Signals) -> None:
    arguments = command("kernel=faulty", "kernel.params.fault=0,2", *QUICK, "-m")
    child = subprocess.Popen(arguments, cwd=tmp_path, env=environment(tmp_path), stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("*/**/result.json")):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    time.sleep(1.0)
    child.send_signal(number)
    output, _ = child.communicate(timeout=300)
    assert child.returncode == 130
    assert "interrupted" in output
    assert sorted(result["status"] for result in results(tmp_path)) == ["PASSED", "SKIPPED"]


def test_a_killed_worker_costs_one_experiment(tmp_path: Path) -> None:
    import psutil

    arguments = command("kernel=faulty", "kernel.params.fault=2,0", *QUICK, "timeout_s=60", "-m")
    child = subprocess.Popen(arguments, cwd=tmp_path, env=environment(tmp_path), stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    worker = None
    while worker is None:
        assert time.monotonic() < deadline
        for process in psutil.Process(child.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):  # a compiler that has just ended
                if "runner.worker" in process.cmdline() and process.cpu_times().user > 5:
                    worker = process
        time.sleep(0.1)
    worker.kill()
    child.communicate(timeout=300)
    assert child.returncode == 1
    assert sorted(result["status"] for result in results(tmp_path)) == ["PASSED", "RUNTIME_ERROR"]


def test_dry_run_prints_the_plan_and_runs_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, "kernel=faulty", "gpu=h200_sxm", "dry_run=true")
    assert done.returncode == 0, done.stderr
    for words in ("faulty_copy grid=4x1x1 block=256x1x1", "4 kB", "memory needed", "nvcc", "sm_90a"):
        assert words in done.stdout
    assert not results(tmp_path)


def test_a_disk_that_fills_in_mid_sweep_stops_it_and_keeps_what_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:

    def write(result: object, folder: Path) -> Path:
        if "/2/" in str(folder):
            raise document.DocumentError(f"cannot write {folder}: no space left; free some and run again")
        return real(result, folder)  # type: ignore[arg-type]

    real = document.write
    monkeypatch.setattr(document, "write", write)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RUNNER_LOCKS", str(tmp_path / "locks"))
    arguments = ["--config-dir", str(FAMILIES), "kernel=faulty", "kernel.params.N=10,11,12,13", *QUICK, "-m"]
    assert main(arguments) == 1
    printed = capsys.readouterr()
    assert "stopped: cannot write" in printed.out and "Traceback" not in printed.out + printed.err
    assert [result["config"]["kernel"]["params"]["N"] for result in results(tmp_path)] == [10, 11]
    (marker,) = tmp_path.rglob("sweep.json")
    assert json.loads(marker.read_text())["status"] == "FAILED"


@pytest.mark.parametrize(
    ("argument", "told"),
    [
        ("tracking.uri=htp://mlflow:5000", "tracking.uri=htp://mlflow:5000 cannot be used; allowed: sqlite:///<file>"),
        ("+environment.PYTHONHOME=/nowhere", "the worker exited with code 1: ModuleNotFoundError: No module named"),
    ],
)
def test_what_would_fail_every_experiment_is_refused_before_the_first(tmp_path: Path, argument: str, told: str) -> None:
    done = run(tmp_path, "kernel=faulty", "gpu=host", "measure=quick", argument)
    assert done.returncode == 2 and told in done.stderr and len(done.stderr.splitlines()) == 1
    assert not results(tmp_path)


@pytest.mark.parametrize("variable", ["RUNNER_LOCKS", "RUNNER_CACHE"])
def test_a_place_that_cannot_be_is_refused_before_anything_is_compiled(tmp_path: Path, variable: str) -> None:
    (tmp_path / "file").touch()
    around = environment(tmp_path) | {variable: str(tmp_path / "file" / "below")}
    done = COMMANDS.run(["--config-dir", str(FAMILIES), "kernel=faulty", *QUICK], tmp_path, around, 300)
    assert done.returncode == 2 and done.stderr.startswith("error: ") and "Not a directory" in done.stderr
    assert variable in done.stderr and "Traceback" not in done.stderr
    assert not results(tmp_path)
