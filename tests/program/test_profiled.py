"""A program under a tool: what the tool is told, and what comes back; the tool is a small script."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

import pytest

from runner.plan.model import CommandPlan
from runner.profile.base import Launch, Window
from runner.program.profiled import ProfiledProgram
from tests.program.conftest import SERVER, Make

TOOL = """
import os, signal, subprocess, sys
child = subprocess.Popen(sys.argv[3:], start_new_session=True)
code = child.wait()
open(sys.argv[2], "w").write(f"report of {code}")
sys.exit(code if code >= 0 else 128 - code)
"""
"""``tool.py profile <report> program arguments…``: writes its report once the program is gone, as profilers do."""


class Heard(Window):
    """Remembers what it was told, and whether the server answered then."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def begin(self, name: str) -> None:
        self.said.append(f"begin {name}")

    def end(self, name: str) -> None:
        self.said.append(f"end {name}")


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    tool = tmp_path / "tool.py"
    tool.write_text(TOOL)
    command = (sys.executable, str(tool), "profile", str(tmp_path / "report"))
    return Launch((), tmp_path, command, {"TMPDIR": str(tmp_path), "SEEN": "1"}, window=Heard())


def subject(command: CommandPlan) -> ProfiledProgram:
    return ProfiledProgram("it", command, "host", (), contextlib.nullcontext)


def heard(launch: Launch) -> list[str]:
    assert isinstance(launch.window, Heard)
    return launch.window.said


def test_a_program_runs_under_the_tool(program: Make, launch: Launch, tmp_path: Path) -> None:
    ended = subject(program("import os; print('seen', os.environ['SEEN'])")).run(launch, 30)
    assert (ended.returncode, ended.timed_out, ended.problem) == (0, False, "")
    assert "seen 1" in ended.output
    assert ended.command.endswith("report python -c …")
    assert heard(launch) == ["begin it", "end it"]
    assert (tmp_path / "report").read_text() == "report of 0"


def test_a_program_that_fails_under_the_tool(program: Make, launch: Launch) -> None:
    ended = subject(program("raise SystemExit('no weights')")).run(launch, 30)
    assert ended.returncode == 1
    assert "no weights" in ended.output


def test_a_program_that_hangs_under_the_tool(program: Make, launch: Launch) -> None:
    begin = time.monotonic()
    ended = subject(program("import time; time.sleep(600)")).run(launch, 0.8)
    assert ended.timed_out and ended.returncode is None
    assert heard(launch) == ["begin it", "end it"]
    assert time.monotonic() - begin < 15


@pytest.mark.parametrize("arguments", [(), ("stubborn",)])
def test_a_server_is_stopped_and_the_tool_is_not(
    server: Make, port: int, launch: Launch, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    ended = subject(server(port, *arguments, stop_s=0.5)).run(launch, 30)
    number = 9 if arguments else 15
    assert (ended.timed_out, ended.problem) == (False, "")
    assert ended.returncode == 128 + number
    assert (tmp_path / "report").read_text() == f"report of {-number}"
    assert heard(launch) == ["begin it", "end it"]


def test_a_server_that_renamed_itself_is_stopped_too(server: Make, port: int, launch: Launch, tmp_path: Path) -> None:
    """Python cannot rename itself without a library; one more exec gives it another command line."""
    code = f"import os, sys; os.execv(sys.executable, ['vllm: main', '-c', {SERVER!r}, sys.argv[1]])"
    ended = subject(server(port, code=code, stop_s=2)).run(launch, 30)
    assert ended.problem == "" and not ended.timed_out
    assert (tmp_path / "report").exists()


def test_a_server_that_is_never_ready_under_the_tool(server: Make, port: int, launch: Launch) -> None:
    ended = subject(server(port, ready="never")).run(launch, 1.0)
    assert ended.timed_out
    assert "not ready" in ended.problem
    assert heard(launch) == []


def test_a_load_that_fails_under_the_tool(server: Make, port: int, launch: Launch, tmp_path: Path) -> None:
    ended = subject(server(port, load="raise SystemExit('refused')")).run(launch, 30)
    assert "the load exited with code 1: refused" in ended.problem
    assert (tmp_path / "report").exists()
    assert heard(launch) == ["begin it", "end it"]


def test_only_a_server_is_captured_in_a_window(program: Make, server: Make, port: int) -> None:
    assert not subject(program("")).about.windowed
    about = subject(server(port)).about
    assert (about.kind, about.windowed) == ("program", True)


def test_a_profiled_program_has_no_credentials_that_its_report_could_hold(program: Make, launch: Launch) -> None:
    command = program("import os; print(repr(os.environ['HF_TOKEN']))", environment={"HF_TOKEN": "hunter2hunter2"})
    assert subject(command).run(launch, 30).output == "''\n"


def test_secrets_stay_out_of_what_is_told(program: Make, launch: Launch) -> None:
    command = program("print('hunter2' * 2)", environment={"HF_TOKEN": "hunter2hunter2"})
    ended = subject(command).run(launch, 30)
    assert "hunter2" not in ended.output and "***" in ended.output


def test_the_runners_own_environment_reaches_the_program(
    program: Make, launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FROM_THE_SHELL", "yes")
    ended = subject(program("import os; print(os.environ['FROM_THE_SHELL'])")).run(launch, 30)
    assert "yes" in ended.output and os.environ["FROM_THE_SHELL"] == "yes"
