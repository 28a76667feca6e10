"""Programs that work, fail, hang, crash and leave things behind, each a real process."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path
from shlex import join

import psutil
import pytest

from runner.plan.model import CommandPlan
from runner.program import family
from runner.program.measured import measure
from runner.result.model import Status
from runner.worker.protocol import Outcome
from tests.program.conftest import Make

LIMIT = 30.0


def run(command: CommandPlan, folder: Path, limit: float = LIMIT) -> Outcome:
    outcome = measure("it", command, limit, folder)
    assert not _alive(), "a process was left behind"
    return outcome


def _alive() -> list[psutil.Process]:
    """Processes of this test's programs that still run."""
    found = []
    for process in psutil.process_iter():
        try:
            marked = family.MARK in process.environ() and process.status() != psutil.STATUS_ZOMBIE
            if marked and os.getpid() in [parent.pid for parent in process.parents()]:
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_an_interrupt_while_it_starts_leaves_nothing_behind(
    program: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(pid: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("runner.program.process.Usage", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measure("it", program("import os, time; os.fork(); time.sleep(600)"), LIMIT, tmp_path)
    assert not _alive()


def test_every_measured_run_is_a_sample(program: Make, tmp_path: Path) -> None:
    code = "import time; time.sleep(0.05); open('runs', 'a').write('x')"
    outcome = run(program(code, warmup=1, repeat=3), tmp_path)
    assert outcome.status is Status.PASSED, outcome.message
    (series,) = outcome.series
    assert (series.mode, series.method, series.stop_reason) == ("host", "wall_clock", "fixed")
    assert len(series.samples_us) == 3
    assert all(50_000 <= sample < 10e6 for sample in series.samples_us)
    assert (tmp_path / "runs").read_text() == "xxxx"


def test_memory_and_processor_time_of_children_count(program: Make, tmp_path: Path) -> None:
    child = "a = bytearray(200_000_000)\nfor i in range(3_000_000): pass\nimport time; time.sleep(1.0)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    outcome = run(program(code), tmp_path)
    assert 200 < outcome.metrics["peak_memory_mb"] < 400
    assert 0.02 < outcome.metrics["cpu_time_s"] < 10


def test_metrics_are_medians_over_the_runs(program: Make, tmp_path: Path) -> None:
    code = (
        "import os, json\nn = len(os.listdir()); open(f'run{n}', 'w')\n"
        "print('1 tok/s'); print(f'{n * 10} tok/s'); print(json.dumps({'a': [{'n': n}]}))"
    )
    metrics = {"speed": "([0-9.]+) tok/s", "n": "$.a[0].n", "absent": "([0-9]+) nowhere"}
    outcome = run(program(code, repeat=3, metrics=metrics), tmp_path)
    assert (outcome.metrics["speed"], outcome.metrics["n"]) == (10.0, 1.0)
    assert "absent" not in outcome.metrics
    assert any("absent" in text and "nowhere" in text for text in outcome.warnings)


def test_output_lies_beside_the_result(program: Make, tmp_path: Path, weird_path: Path) -> None:
    run(program("import sys; print('grüße ☃'); sys.stderr.buffer.write(b'\\xff bytes')"), weird_path)
    assert (weird_path / "stdout.txt").read_text(encoding="utf-8") == "grüße ☃\n"
    assert (weird_path / "stderr.txt").read_text(encoding="utf-8") == "� bytes"


def test_several_runs_are_told_apart(program: Make, tmp_path: Path) -> None:
    run(program("print('hello')", repeat=2), tmp_path)
    assert (tmp_path / "stdout.txt").read_text() == "== run 1 of 2 ==\nhello\n== run 2 of 2 ==\nhello\n"
    assert not (tmp_path / "stderr.txt").exists()


def test_huge_output_is_read_and_cut_in_the_middle(program: Make, tmp_path: Path) -> None:
    code = "import sys\nprint('first')\nfor i in range(300): sys.stdout.write('x' * 99_999 + '\\n')\nprint('7 tok/s')"
    outcome = run(program(code, metrics={"speed": "([0-9]+) tok/s"}), tmp_path)
    assert outcome.metrics["speed"] == 7
    text = (tmp_path / "stdout.txt").read_text()
    assert text.startswith("first\n") and "bytes left out]" in text and len(text) < 3_000_000


def test_arguments_and_environment_arrive_as_they_are(program: Make, tmp_path: Path) -> None:
    words = ["a b", "'", '"', "$HOME", "", "ü", "*"]
    code = "import sys, os, json; print(json.dumps([sys.argv[1:], os.environ['X'], os.getcwd()]))"
    run(program(code, *words, environment={"X": "1 ü"}), tmp_path)
    assert json.loads((tmp_path / "stdout.txt").read_text()) == [words, "1 ü", str(tmp_path)]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import sys; sys.exit(3)", "the program exited with code 3"),
        ("raise ValueError('too hot')", "exited with code 1: ValueError: too hot"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "was killed by SIGSEGV"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ran out of memory"),
        ("raise SystemExit('\\x1b[31mred\\x1b[0m \\x1b]0;title\\x07\\x9bend\\x00')", "exited with code 1: red end"),
        ("print('said this'); raise SystemExit(2)", "exited with code 2: said this"),
    ],
)
def test_a_failure_is_named(program: Make, tmp_path: Path, code: str, words: str) -> None:
    outcome = run(program(code), tmp_path)
    assert outcome.status is Status.RUNTIME_ERROR
    assert words in outcome.message
    assert not outcome.series and "cpu_time_s" not in outcome.metrics


def test_the_failing_run_is_named(program: Make, tmp_path: Path) -> None:
    code = "import os, sys; open(str(len(os.listdir())), 'w'); sys.exit(len(os.listdir()) == 3)"
    outcome = run(program(code, warmup=1, repeat=5), tmp_path)
    assert "(run 2 of 5)" in outcome.message


def test_a_hang_costs_its_limit_and_all_its_processes(program: Make, tmp_path: Path) -> None:
    code = "import os, time; print('deep in', flush=True); os.fork(); os.fork(); time.sleep(600)"
    begin = time.monotonic()
    outcome = run(program(code), tmp_path, limit=0.7)
    assert outcome.status is Status.TIMEOUT
    assert "timeout_s=0.7" in outcome.message and "deep in" in outcome.message
    assert time.monotonic() - begin < 15


@pytest.mark.parametrize("leave", ["", "os.setsid();", "os.setsid(); os.fork() and os._exit(0);"])
def test_children_that_outlive_the_program_are_ended(program: Make, tmp_path: Path, leave: str) -> None:
    code = f"""
import os, time
if os.fork() == 0:
    {leave or "pass;"} open("child", "w").write(str(os.getpid())); time.sleep(600)
while not os.path.exists("child") or not open("child").read(): time.sleep(0.01)
"""
    begin = time.monotonic()
    outcome = run(program(code), tmp_path)
    assert outcome.status is Status.PASSED, outcome.message
    assert outcome.series[0].samples_us[0] < 10e6
    assert any("left behind" in text for text in outcome.warnings)
    assert not psutil.pid_exists(int((tmp_path / "child").read_text())) or _zombie(tmp_path)
    assert time.monotonic() - begin < 20


def _zombie(folder: Path) -> bool:
    return psutil.Process(int((folder / "child").read_text())).status() == psutil.STATUS_ZOMBIE


def test_a_child_that_ends_soon_is_let_end(program: Make, tmp_path: Path) -> None:
    code = "import os, time\nif os.fork() == 0: time.sleep(0.1); open('done', 'w')"
    outcome = run(program(code), tmp_path)
    assert outcome.warnings == [] and (tmp_path / "done").exists()


def test_ctrl_c_leaves_nothing_running(program: Make, tmp_path: Path) -> None:
    timer = threading.Timer(0.7, os.kill, [os.getpid(), signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        measure("it", program("import os, time; print('on', flush=True); os.fork(); time.sleep(600)"), LIMIT, tmp_path)
    timer.join()
    assert not _alive()


def test_a_file_that_is_no_program(tmp_path: Path, program: Make) -> None:
    script = tmp_path / "odd"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    outcome = run(replace(program(""), argv=(str(script),)), tmp_path)
    assert outcome.status is Status.RUNTIME_ERROR
    assert "cannot be run" in outcome.message


def test_a_program_that_deletes_its_folder(tmp_path: Path, program: Make) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    outcome = run(replace(program("import os; os.rmdir(os.getcwd())", repeat=2), folder=str(folder)), tmp_path / "kept")
    assert outcome.status is Status.RUNTIME_ERROR
    assert f"cannot be run: its working directory {folder} is gone" in outcome.message


def test_secrets_among_the_arguments_are_masked_in_what_it_prints(program: Make, tmp_path: Path) -> None:
    words = ["--token", "hunter2token", "--api-key=hunter2key", "-u", "bob:hunter2user", "-H", "X: Bearer hunter2bear"]
    outcome = run(program("import sys; print(*sys.argv); sys.exit(sys.argv[2])", *words), tmp_path)
    assert outcome.message.endswith("***")
    assert (tmp_path / "stdout.txt").read_text() == "-c --token *** --api-key=*** -u bob:*** -H X: Bearer ***\n"


def test_secrets_are_masked_in_what_is_filed(program: Make, tmp_path: Path) -> None:
    code = "import os, sys; print(os.environ['HF_TOKEN']); sys.exit('bad ' + os.environ['HF_TOKEN'])"
    outcome = run(program(code, environment={"HF_TOKEN": "hunter2hunter2"}), tmp_path)
    assert "bad ***" in outcome.message
    assert (tmp_path / "stdout.txt").read_text() == "***\n"


@pytest.mark.parametrize("ready", ["port", "url", "output"])
def test_a_server_is_measured_by_its_load(server: Make, port: int, ready: str, tmp_path: Path) -> None:
    command = server(port, ready=ready, repeat=2, warmup=1, metrics={"requests": "([0-9]+) req"})
    outcome = run(command, tmp_path)
    assert outcome.status is Status.PASSED, outcome.message
    assert len(outcome.series[0].samples_us) == 2
    assert outcome.metrics["requests"] == 5
    assert outcome.metrics["peak_memory_mb"] > 1
    assert outcome.warnings == []
    assert "got hello" in (tmp_path / "stdout.txt").read_text()
    assert (tmp_path / "server_stdout.txt").read_text() == "listening\n"


def test_a_server_that_is_never_ready(server: Make, port: int, tmp_path: Path) -> None:
    outcome = run(server(port, ready="never", ready_s=0.8), tmp_path)
    assert outcome.status is Status.TIMEOUT
    assert "not ready within 0.8 s" in outcome.message and "listening" in outcome.message
    assert "PYTHONUNBUFFERED" in outcome.message


def test_a_server_that_dies_early(server: Make, port: int, tmp_path: Path) -> None:
    outcome = run(server(port, code="raise OSError('no model')"), tmp_path)
    assert outcome.status is Status.RUNTIME_ERROR
    assert "exited with code 1: OSError: no model" in outcome.message and "before it was ready" in outcome.message


def test_a_server_that_dies_under_load(server: Make, port: int, tmp_path: Path) -> None:
    code = "import socket, sys\ns = socket.socket(); s.bind(('127.0.0.1', int(sys.argv[1]))); s.listen()\n"
    code += "while s.accept()[0].recv(9) != b'GET / HTT': pass\nsys.exit('out of pages')"
    outcome = run(server(port, code=code), tmp_path)
    assert outcome.status is Status.RUNTIME_ERROR
    assert "the server exited with code 1: out of pages" in outcome.message
    assert "while its load ran" in outcome.message


def test_a_load_that_fails(server: Make, port: int, tmp_path: Path) -> None:
    outcome = run(server(port, load="raise SystemExit('refused by the model')"), tmp_path)
    assert outcome.status is Status.RUNTIME_ERROR
    assert "the load exited with code 1: refused by the model" in outcome.message


def test_a_load_that_hangs(server: Make, port: int, tmp_path: Path) -> None:
    outcome = run(server(port, load="import time; time.sleep(600)"), tmp_path, limit=0.7)
    assert outcome.status is Status.TIMEOUT
    assert "the load did not end within timeout_s=0.7" in outcome.message


def test_a_server_that_does_not_stop_is_killed(server: Make, port: int, tmp_path: Path) -> None:
    outcome = run(server(port, "stubborn", stop_s=0.3), tmp_path)
    assert outcome.status is Status.PASSED
    assert outcome.warnings == ["the server did not end within command.stop_s=0.3 of SIGTERM and was killed"]


def test_a_port_that_is_taken_is_no_server_of_ours(server: Make, port: int, tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        outcome = run(server(port), tmp_path)
    assert outcome.status is Status.RUNTIME_ERROR
    assert f"port {port} already answers" in outcome.message


def test_a_shell_server_is_stopped_with_its_children(server: Make, port: int, tmp_path: Path) -> None:
    plain = server(port)
    shell = replace(plain, argv=("/bin/sh", "-c", f"true && {join(plain.argv)}; echo ended"), shell=True)
    outcome = run(shell, tmp_path)
    assert outcome.status is Status.PASSED, outcome.message
    assert outcome.warnings == []
