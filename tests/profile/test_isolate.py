from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runner.profile import isolate

PATH = {"PATH": os.environ["PATH"]}


def test_credentials_are_blanked_and_nothing_else() -> None:
    environment = {
        "MLFLOW_TRACKING_PASSWORD": "hunter2",
        "MLFLOW_TRACKING_URI": "http://me:hunter2@server",
        "EMPTY_TOKEN": "",
        "PATH": "/bin",
        "PWD": "/home",
    }
    assert isolate.blanked(environment) == {"MLFLOW_TRACKING_PASSWORD": "", "MLFLOW_TRACKING_URI": ""}


def test_the_namespace_hides_other_processes() -> None:
    prefix = isolate.namespace_prefix()
    if not prefix:
        pytest.skip("this system does not allow a process namespace")
    listed = subprocess.run(
        [*prefix, sys.executable, "-c", "import os; print([p for p in os.listdir('/proc') if p.isdigit()])"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert listed.stdout.strip() == "['1']"


def test_the_namespace_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNNER_PROFILE_ISOLATE", "0")
    assert isolate.namespace_prefix() == ()


def test_no_unshare_means_no_namespace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    isolate._working_way.cache_clear()
    try:
        assert isolate.namespace_prefix() == ()
    finally:
        isolate._working_way.cache_clear()


def test_end_all_reaches_processes_of_other_sessions_and_only_marked_ones(tmp_path: Path) -> None:
    sleeper = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]

    def start(environment: dict[str, str]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(sleeper, env=environment, start_new_session=True, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    marked = start(isolate.of_scratch(tmp_path))
    other = start(isolate.of_scratch(tmp_path / "other"))
    try:
        assert isolate.end_all(tmp_path) == 1
        assert marked.wait(timeout=5) == -signal.SIGKILL
        assert other.poll() is None
    finally:
        other.kill()
        for process in (marked, other):
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


@pytest.mark.parametrize("isolated", [True, False])
def test_a_tool_is_reached_in_its_own_namespace_or_in_ours(isolated: bool, tmp_path: Path) -> None:
    prefix = isolate.namespace_prefix() if isolated else ()
    if isolated and not prefix:
        pytest.skip("this system does not allow a process namespace")
    assert isolate.enter(tmp_path) is None
    sleeper = [*prefix, sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]
    with subprocess.Popen(sleeper, env={**isolate.of_scratch(tmp_path), **PATH}, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            way = isolate.enter(tmp_path)
            assert way is not None and bool(way) == isolated
            code = "import os; print(len([p for p in os.listdir('/proc') if p.isdigit()]))"
            seen = subprocess.run([*way, sys.executable, "-c", code], capture_output=True, text=True, check=True)
            assert (int(seen.stdout) == 2) == isolated
        finally:
            isolate.end_all(tmp_path)
