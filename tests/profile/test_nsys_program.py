"""Programs that are not ours, under a real nsys: whole, and in the window of their load."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from runner.profile import isolate
from runner.profile.base import Capture, Ended, Launch, ProfileSettings, Subject
from runner.profile.nsys import NsysProfiler
from runner.profile.nsys_session import SessionWindow
from runner.result.model import ProfileStatus

Run = Callable[..., Ended]
Captures = Callable[..., list[Capture]]
Pretend = Callable[[str], Path]
WHOLE = Subject("program", "host")
SERVED = Subject("program", "host", windowed=True)

SERVER = """
import http.server, nvtx, signal, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with nvtx.annotate(self.path):
            self.send_response(200)
            self.end_headers()
    def log_message(self, *rest): pass

def stop(*_): raise KeyboardInterrupt

signal.signal(signal.SIGTERM, stop)
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
try:
    server.serve_forever()
except KeyboardInterrupt:
    open(sys.argv[1], "w").close()
"""


@contextmanager
def serving(launch: Launch, folder: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A server under a launch, and its port."""
    script = folder / "server.py"
    script.write_text(SERVER)
    process = subprocess.Popen(
        [*launch.command, sys.executable, str(script), str(folder / "ended")],
        env={**os.environ, **launch.environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        yield process, int(process.stdout.readline())
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.stdout.close()
        process.wait()


def request(port: int, path: str) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10) as answer:
        assert answer.status == 200


@pytest.mark.parametrize("isolated", ["1", "0"])
def test_a_server_is_captured_only_while_its_load_runs(
    isolated: str, nsys: Path, captures: Captures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNNER_PROFILE_ISOLATE", isolated)
    profiler = NsysProfiler(ProfileSettings())
    (launch,) = profiler.launches(captures("a"), SERVED)
    with serving(launch, tmp_path) as (process, port):
        request(port, "before")
        launch.window.begin("a")
        request(port, "load")
        launch.window.end("a")
        request(port, "after")
        _terminate("server.py", tmp_path)
        code = process.wait(timeout=30)
    assert (tmp_path / "ended").exists(), "the server was not stopped in order"

    (profile,) = profiler.collect(launch, Ended(code))

    assert profile.status is ProfileStatus.OK, profile.reason
    assert profile.ranges == ["/load"]
    assert profile.artifacts[0] == "model_a.nsys-rep"
    assert not launch.scratch.exists()
    assert [p for p in psutil.process_iter() if _marked(p, launch.scratch)] == []


def _terminate(script: str, folder: Path) -> None:
    (server,) = [
        process
        for process in psutil.process_iter(["cmdline"])
        if (process.info["cmdline"] or [])[1:2] == [str(folder / script)]
    ]
    server.terminate()


def _marked(process: psutil.Process, scratch: Path) -> bool:
    try:
        return process.environ().get("TMPDIR") == str(scratch)
    except psutil.Error:
        return False


def test_a_server_that_dies_under_load_leaves_its_report(nsys: Path, captures: Captures, tmp_path: Path) -> None:
    profiler = NsysProfiler(ProfileSettings())
    (launch,) = profiler.launches(captures("a"), SERVED)
    with serving(launch, tmp_path) as (process, port):
        launch.window.begin("a")
        request(port, "load")
        _terminate("server.py", tmp_path)
        code = process.wait(timeout=30)
        launch.window.end("a")
    (profile,) = profiler.collect(launch, Ended(code))
    assert (profile.status, profile.ranges) == (ProfileStatus.OK, ["/load"]), profile.reason


def test_a_window_that_never_opened_is_explained(nsys: Path, captures: Captures, tmp_path: Path) -> None:
    profiler = NsysProfiler(ProfileSettings())
    (launch,) = profiler.launches(captures("a"), SERVED)
    with serving(launch, tmp_path) as (process, _):
        _terminate("server.py", tmp_path)
        process.wait(timeout=30)
        launch.window.begin("a")
        launch.window.end("a")
    (profile,) = profiler.collect(launch, Ended(0))
    assert profile.status is ProfileStatus.FAILED
    assert "nsys start found no nsys to talk to" in profile.reason


def test_a_whole_program_needs_no_range(nsys: Path, run_worker: Run, captures: Captures) -> None:
    profiler = NsysProfiler(ProfileSettings())
    launches = profiler.launches(captures("a", "b"), WHOLE)
    assert [len(launch.captures) for launch in launches] == [1, 1]
    found = []
    for launch in launches:
        found += profiler.collect(launch, run_worker(launch, "0", "x"))
    for profile in found:
        assert (profile.status, profile.reason) == (ProfileStatus.OK, "")
        assert profile.ranges == ["decode/demo/prepare", "decode/demo/x"]
        assert {call.kind for call in profile.calls} == {"os"}
        assert not profile.kernels
    assert found[1].artifacts[0] == "model_b.nsys-rep"


def test_a_program_that_fails_fails_the_profile_and_keeps_its_report(
    nsys: Path, run_worker: Run, captures: Captures
) -> None:
    profiler = NsysProfiler(ProfileSettings())
    (launch,) = profiler.launches(captures("a"), WHOLE)
    ended = run_worker(launch, "5", "x")
    assert ended.returncode == 5
    (profile,) = profiler.collect(launch, ended)
    assert profile.status is ProfileStatus.FAILED
    assert profile.reason == "the program ended with code 5 while being profiled; the report tells of that run"
    assert profile.artifacts[0] == "model_a.nsys-rep"
    assert profile.calls


def test_what_the_tool_says_when_a_window_fails_is_kept(pretend_nsys: Pretend, tmp_path: Path) -> None:
    path = pretend_nsys("echo 'Collection start is not allowed in this state.'; exit 1")
    window = SessionWindow(path, "s", tmp_path, 5)
    with subprocess.Popen(["sleep", "30"], env={**os.environ, **isolate.of_scratch(tmp_path)}) as marked:
        try:
            window.begin("a")
            window.end("a")
        finally:
            marked.kill()
    assert window.problem == "nsys start ended with code 1 (Collection start is not allowed in this state.)"


def test_a_report_that_lacks_events_says_so(nsys: Path, run_worker: Run, captures: Captures) -> None:
    profiler = NsysProfiler(ProfileSettings())
    (launch,) = profiler.launches(captures("a"), WHOLE)
    ended = run_worker(launch, "0", "a")
    said = replace(ended, output=f"{ended.output}\n**** Errors occurred while processing the raw events. ****")
    (profile,) = profiler.collect(launch, said)
    assert profile.status is ProfileStatus.FAILED
    assert "kernels may be missing" in profile.reason
    assert (profile.metrics, profile.gaps) == ({}, [])
    assert profile.reports
    assert "Nsight Systems as new as" in profile.reason
