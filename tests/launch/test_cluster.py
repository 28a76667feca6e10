"""Sweeps of 24 experiments on a real Slurm and a real Ray, undisturbed and with losses: ``make cluster-test``."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runner.result import document
from tests.launch import ray_here, slurm_here, sweeps
from tests.launch.slurm_here import SlurmHere

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

MIXED = ("kernel=faulty", "kernel.params.fault=0,10,11,12,3,5", "kernel.params.N=100,200", "seed=1,2")
"""16 that pass, 4 that give a wrong result, 4 that are too large."""
PASSING = ("kernel=faulty", "kernel.params.fault=0,10,11", "kernel.params.N=100,200", "seed=1,2,3,4")
"""24 that pass."""
OUTAGE_S = 60


@pytest.fixture(scope="module")
def sequential(tmp_path_factory: pytest.TempPathFactory) -> sweeps.Filed:
    folder = tmp_path_factory.mktemp("sequential")
    uri = f"sqlite:///{folder}/mlflow.db"
    done = sweeps.run(folder, *MIXED, f"tracking.uri={uri}", timeout=600)
    assert done.returncode == 1, done.stdout + done.stderr
    return sweeps.filed(uri)


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmHere]:
    with slurm_here.started() as made:
        for name, value in made.environment.items():
            monkeypatch.setenv(name, value)
        yield made


def same(found: sweeps.Filed, expected: sweeps.Filed) -> None:
    assert found.runs == expected.runs and len(found.runs) == 24
    assert len(found.sweep_ids) == 1 and found.summaries == 1
    assert set(found.result_ids.values()) == {1}


def test_the_gpus_launcher_files_what_the_sequential_sweep_does(tmp_path: Path, sequential: sweeps.Filed) -> None:
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    chosen = ("hydra/launcher=gpus", "hydra.launcher.devices=[0,1]", f"tracking.uri={uri}")
    assert sweeps.run(tmp_path, *MIXED, *chosen, timeout=600).returncode == 1
    same(sweeps.filed(uri), sequential)


@pytest.mark.slurm
def test_slurm_files_what_the_sequential_sweep_does(slurm: SlurmHere, tmp_path: Path, sequential: sweeps.Filed) -> None:
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    done = sweeps.run(tmp_path, *MIXED, "hydra/launcher=slurm", f"tracking.uri={uri}", timeout=600)
    assert done.returncode == 1, done.stdout + done.stderr
    found = sweeps.filed(uri)
    same(found, sequential)
    assert {tags["job_node"] for tags in found.tags} == set(slurm_here.NODES)
    assert all(Path(tags["job_log"]).is_file() for tags in found.tags)


@pytest.mark.ray
def test_ray_files_what_the_sequential_sweep_does(tmp_path: Path, sequential: sweeps.Filed) -> None:
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    with ray_here.started() as ray:
        done = ray.run(sweeps.command(*MIXED, "hydra/launcher=ray", f"tracking.uri={uri}"), tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    same(sweeps.filed(uri), sequential)


@pytest.mark.slurm
def test_losses_cost_no_finished_experiment_and_are_made_up_for(slurm: SlurmHere, tmp_path: Path) -> None:
    """A node dies, a task is cancelled, and the MLflow server is away for a minute, all in one sweep."""
    store, port = tmp_path / "mlflow.db", free_port()
    uri = f"http://127.0.0.1:{port}"
    lines = (*PASSING, "hydra/launcher=slurm", f"tracking.uri={uri}", "tracking.every_s=1")
    with server(store, port, tmp_path) as first:
        driver = subprocess.Popen(
            sweeps.command(*lines), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        until(lambda: len(list(tmp_path.glob("multirun/*/*/*/plain/.filed"))) >= 3)
        first.terminate()
        first.wait()
    away = time.monotonic()
    slurm.kill_node("node2")
    (array,) = {line.split("_")[0] for line in slurm.ask("squeue", "-h", "-r", "-o", "%i").splitlines()}
    slurm.ask("scancel", f"{array}_23")
    time.sleep(max(0.0, OUTAGE_S - (time.monotonic() - away)))
    with server(store, port, tmp_path):
        output, _ = driver.communicate(timeout=600)
        assert driver.returncode == 1, output
        assert f"Slurm job {array}_23" in output and "cancelled" in output.lower()
        # The server was away when results were filed in between; at the end, or by this, all of them are.
        synced = subprocess.run(
            [sys.executable, "-m", "runner.sync"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert synced.returncode == 0, output + synced.stdout + synced.stderr
        found = sweeps.filed(f"sqlite:///{store}")
        assert found.statuses == {"PASSED": 23, "RUNTIME_ERROR": 1}, output
        assert set(found.result_ids.values()) == {1} and found.summaries == 1

        slurm.start_node("node2")
        again = sweeps.run(tmp_path, *lines, "resume=true", timeout=600)
        assert again.returncode == 0, again.stdout + again.stderr
        assert "23 results are there already, 1 are left to run" in again.stdout
        found = sweeps.filed(f"sqlite:///{store}")
        assert found.statuses == {"PASSED": 24, "RUNTIME_ERROR": 1}
        assert set(found.result_ids.values()) == {1} and found.summaries == 2
        passed = [params for status, params, _ in found.runs if status == "PASSED"]
        assert len(set(passed)) == 24


@pytest.mark.slurm
def test_a_preempted_job_goes_back_into_the_queue_and_keeps_what_it_had_finished(
    slurm: SlurmHere, tmp_path: Path
) -> None:
    lines = ("kernel=kv_quant", "scale=smoke", "variants=[fp32,fp16,q8]", "measure.fixed=3000", "tracking=none")
    driver = subprocess.Popen(
        sweeps.command(*lines, "hydra/launcher=slurm"), cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    until(lambda: any(tmp_path.glob("multirun/*/*/0/fp32/result.json")))
    (first,) = tmp_path.glob("multirun/*/*/0/fp32/result.json")
    before = document.read(first).id
    (job,) = slurm.ask("squeue", "-h", "-o", "%i").split()
    slurm.ask("scancel", "--signal=USR2", job)
    until(lambda: slurm.ask("squeue", "-h", "-o", "%T") == "PENDING")
    output, _ = driver.communicate(timeout=400)
    assert driver.returncode == 0, output
    made = {path.parent.name: document.read(path) for path in tmp_path.glob("multirun/*/*/0/*/result.json")}
    assert set(made) == {"fp32", "fp16", "q8"} and made["fp32"].id == before
    assert all(one.metrics["speedup"] > 0 for one in made.values())


@pytest.mark.slurm
def test_what_jobs_left_when_the_driver_was_killed_is_filed_by_sync(slurm: SlurmHere, tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    arguments = sweeps.command(*PASSING, "hydra/launcher=slurm", f"tracking.uri={uri}")
    driver = subprocess.Popen(arguments, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: slurm.ask("squeue", "-h", "-t", "running") != "")
    driver.kill()
    driver.wait()
    until(lambda: slurm.ask("squeue", "-h") == "", limit_s=400)
    synced = subprocess.run([sys.executable, "-m", "runner.sync"], cwd=tmp_path, capture_output=True, text=True)
    assert synced.returncode == 0, synced.stderr
    found = sweeps.filed(uri)
    assert found.statuses == {"PASSED": 24} and found.summaries == 1 and set(found.result_ids.values()) == {1}


def until(true: Callable[[], bool], limit_s: float = 240.0) -> None:
    deadline = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.3)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextlib.contextmanager
def server(store: Path, port: int, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """An MLflow server on the loopback device."""
    with (folder / "server.log").open("ab") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)),
                *("--backend-store-uri", f"sqlite:///{store}", "--artifacts-destination", str(folder / "artifacts")),
                *("--workers", "1"),
            ],
            stdout=log,
            stderr=log,
            env={**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
        )
    try:
        until(lambda: process.poll() is None and answers(port))
        yield process
    finally:
        process.terminate()
        process.wait(timeout=60)


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/version", timeout=2) as answer:
            return bool(answer.read())
    except OSError:
        return False
