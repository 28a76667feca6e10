"""``kernel=command`` through whole commands: what a user types, what is printed, what lies on disk."""

from __future__ import annotations

import json
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from runner.config.grammar import line_of
from runner.profile import processes
from tests.execute.test_sweep import command, environment, results
from tests.execute.test_sweep import run as run_command

PLAIN = ("kernel=command", "gpu=host", "tracking=none")


def argv(code: str, *arguments: str) -> str:
    return line_of("command.argv", [sys.executable, "-c", code, *arguments])


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_command(folder, *PLAIN, *arguments)


def one(folder: Path) -> dict[str, Any]:
    (result,) = results(folder)
    return result


def test_devices_that_cannot_be_locked_are_refused_before_the_program_starts(tmp_path: Path) -> None:
    (tmp_path / "locks").touch()
    done = run(tmp_path, argv("open('started', 'w')"))
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: RUNNER_LOCKS={tmp_path}/locks: devices cannot be locked there")
    assert not results(tmp_path) and not list(tmp_path.rglob("started"))


def test_a_program_is_timed_and_its_metrics_are_shown(tmp_path: Path) -> None:
    metrics = 'command.metrics={tokens_per_s:"([0-9.]+) tok/s"}'
    done = run(tmp_path, argv("print('12.5 tok/s')"), metrics, "command.repeat=3", "command.name=bench")
    assert done.returncode == 0, done.stdout + done.stderr
    result = one(tmp_path)
    assert (result["status"], result["quality"], result["variant"]) == ("PASSED", "OK", "bench")
    assert result["metrics"]["tokens_per_s"] == 12.5
    assert len(result["samples"][0]["samples_us"]) == 3
    assert (result["model"], result["shape"]) == ("", "")
    assert not {"gbps", "flops", "bytes_moved", "speedup", "intensity"} & set(result["metrics"])
    header = next(line for line in done.stdout.splitlines() if line.startswith("variant"))
    assert "tokens_per_s" in header
    assert not {"rate", "bound", "speed-up", "peak"} & set(header.split())
    assert "baseline" not in done.stdout
    assert list(tmp_path.glob("outputs/**/bench/stdout.txt"))


def test_a_sweep_varies_arguments_and_environment(tmp_path: Path) -> None:
    code = "import os, sys; print(sys.argv[1], os.environ['CUDA_DEVICE_MAX_CONNECTIONS'])"
    lines = [argv(code, "${shape.batch}"), "command.environment.CUDA_DEVICE_MAX_CONNECTIONS=1,8", "shape.batch=1,2"]
    done = run(tmp_path, *lines, "-m")
    assert done.returncode == 0, done.stdout + done.stderr
    said = sorted(path.read_text().strip() for path in tmp_path.glob("multirun/**/stdout.txt"))
    assert said == ["1 1", "1 8", "2 1", "2 8"]
    assert {(r["params"]["batch"], r["params"]["CUDA_DEVICE_MAX_CONNECTIONS"]) for r in results(tmp_path)} == {
        (1, 1), (1, 8), (2, 1), (2, 8)
    }  # fmt: skip
    header = next(line for line in done.stdout.splitlines() if line.startswith("variant"))
    assert "batch" in header and "CUDA_DEVICE_MAX_CONNECTIONS" in header and "argv" not in header


def test_one_failing_program_of_a_sweep_costs_itself(tmp_path: Path) -> None:
    done = run(tmp_path, argv("import sys; sys.exit(int(sys.argv[1]) - 1)", "${shape.batch}"), "shape.batch=1,3", "-m")
    assert done.returncode == 1
    assert [r["status"] for r in results(tmp_path)] == ["PASSED", "RUNTIME_ERROR"]
    assert "the program exited with code 2" in done.stdout
    assert "again: python -m runner" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "command.argv=[]: name the program"),
        (["command.argv=[no-such-program]"], "there is no program 'no-such-program' on the PATH"),
        (["command.argv=[sh]", "variants=[fp32]"], "kernel=command has no variants"),
        (["command.argv=[sh]", "command.ready.port=1"], "needs a client"),
        (["command.argv=[sh]", "command.folder=/no/such"], "there is no folder /no/such"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_runs(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = run(tmp_path, *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert results(tmp_path) == []


def test_a_dry_run_prints_what_would_be_run(tmp_path: Path) -> None:
    arguments = ["command.environment.HF_TOKEN=hunter2", "command.ready.port=1", "command.load=[sh,-c,'exit 0']"]
    done = run(tmp_path, argv("print(1)", "--api-key", "hunter2"), *arguments, "dry_run=true")
    assert done.returncode == 0, done.stderr
    for words in ("--api-key '***'", "with HF_TOKEN=***", "ready by port 1", "/sh -c 'exit 0'"):
        assert words in done.stdout
    assert "hunter2" not in done.stdout + done.stderr
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_secret_reaches_no_file(tmp_path: Path, new_store: str) -> None:
    store = f"tracking.uri={new_store}"
    code = "import os, sys; print(os.environ['HF_TOKEN'], sys.argv[2]); sys.exit(os.environ['HF_TOKEN'])"
    arguments = [argv(code, "--api-key", "hunter2-key"), "command.environment.HF_TOKEN=hunter2-key"]
    done = run_command(tmp_path, *PLAIN[:2], store, *arguments)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "hunter2" not in done.stdout + done.stderr
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert b"hunter2" not in path.read_bytes(), path
    with sqlite3.connect(tmp_path / "mlflow.db") as database:
        assert ("command",) in database.execute("select name from experiments").fetchall()


def test_ctrl_c_ends_the_program_too(tmp_path: Path) -> None:
    code = "import os, time; os.fork(); open('up', 'w'); time.sleep(600)"
    arguments = command(*PLAIN, argv(code))
    child = subprocess.Popen(arguments, cwd=tmp_path, env=environment(tmp_path), stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (tmp_path / "up").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    below = psutil.Process(child.pid).children(recursive=True)
    assert len(below) >= 2
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=300)
    assert child.returncode == 130
    assert not [process for process in below if processes.lives(process)]
    assert one(tmp_path)["status"] == "SKIPPED"


@pytest.mark.slow
@pytest.mark.nsys
def test_a_program_nobody_here_wrote_under_nsys(tmp_path: Path) -> None:
    code = "import numpy as np; a = np.ones((300, 300)); print((a @ a).sum())"
    done = run(tmp_path, argv(code), "profiler=nsys")
    assert done.returncode == 0, done.stdout + done.stderr
    profile = one(tmp_path)["profile"]
    assert profile["status"] == "OK", profile["reason"]
    (report,) = [name for name in profile["artifacts"] if name.endswith(".nsys-rep")]
    assert report.startswith("none_host_program_command_python")
    assert next(tmp_path.glob(f"outputs/**/{report}")).stat().st_size > 1000
    calls = {call["name"]: call for call in profile["calls"] if call["kind"] == "os"}
    assert calls and all(call["total_us"] > 0 for call in calls.values())
    assert profile["kernels"] == [] and not [name for name in profile["metrics"] if name.startswith("gpu_")]


@pytest.mark.slow
@pytest.mark.nsys
def test_a_server_under_nsys_while_its_load_runs(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    served = line_of("command.argv", [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"])
    load = "import urllib.request; urllib.request.urlopen('http://127.0.0.1:%d/').read(); print('[1]')"
    done = run(
        tmp_path,
        served,
        f"command.ready.port={port}",
        line_of("command.load", [sys.executable, "-c", load % port]),
        "command.metrics={requests: '$[0]'}",
        "profiler=nsys",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = one(tmp_path)
    assert result["metrics"]["requests"] == 1
    assert result["warnings"] == []
    assert result["profile"]["status"] == "OK", result["profile"]["reason"]
    assert [name for name in result["profile"]["artifacts"] if name.endswith(".nsys-rep")]
    assert json.dumps(result["profile"]["commands"]).count("http.server") == 1


def test_ranges_of_the_runner_are_no_programs(tmp_path: Path) -> None:
    done = run(tmp_path, argv("print(1)"), "profiler=nvtx")
    assert done.returncode == 0
    assert one(tmp_path)["profile"]["status"] == "UNAVAILABLE"
    assert "profiler=nsys" in one(tmp_path)["profile"]["reason"]
