"""Whole commands, each in a process of its own: forked from one that has imported all they need, since importing it
takes a command seconds. What a test gets is what ``subprocess.run([python, "-m", "runner", …])`` would give it."""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from runner.record.mlflow_store import SETTINGS

ROOT = Path(__file__).resolve().parents[1]
_IMPORTED = (
    *("matplotlib.pyplot", "mlflow", "mlflow.store.tracking.sqlalchemy_store"),
    *("runner.__main__", "runner.cli", "runner.task", "runner.execute.command", "runner.execute.dry_run"),
)


class Commands:
    """The process that forks. One per process of tests, started when first asked."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[str] | None = None

    def run(
        self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """``python -m runner`` with these arguments, in ``folder``. Raises ``subprocess.TimeoutExpired``."""
        if self._server is None or self._server.poll() is not None:
            self._server = self._start()  # the first, or another where somebody ended it
        server = self._server
        assert server.stdin is not None and server.stdout is not None
        with tempfile.TemporaryDirectory() as place:
            output = [f"{place}/stdout", f"{place}/stderr"]
            request = {
                "arguments": list(arguments),
                "folder": str(folder),
                "environment": dict(environment),
                "output": output,
                "timeout": timeout,
            }
            server.stdin.write(json.dumps(request) + "\n")
            server.stdin.flush()
            answer = server.stdout.readline()
            assert answer, "the process that forks the commands has ended"
            code = json.loads(answer)
            printed = [Path(name).read_text(encoding="utf-8") for name in output]
        if code is None:
            raise subprocess.TimeoutExpired(list(arguments), timeout, *printed)
        return subprocess.CompletedProcess(list(arguments), code, *printed)

    def _start(self) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        server = subprocess.Popen(
            [sys.executable, __file__],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a signal to the group of a test is not meant for it
        )
        atexit.register(self._stop, server)
        return server

    @staticmethod
    def _stop(server: subprocess.Popen[str]) -> None:
        assert server.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            server.stdin.close()
        server.wait(30)


COMMANDS = Commands()


def serve() -> int:
    """Forks for each line of standard input, and answers with the command's exit code."""
    _import_everything()
    signal.signal(signal.SIGALRM, _too_long)
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _leave(_command(request))
        print(json.dumps(_code(child, request["timeout"])), flush=True)
    return 0


def _import_everything() -> None:
    """What a command imports now or later, without running any of it."""
    os.environ.update(SETTINGS)
    for name in _IMPORTED:
        importlib.import_module(name)
    gc.freeze()  # a command's collections need not go through all that


def _command(request: dict[str, Any]) -> int:
    """Becomes the command: its folder, environment and output; the exit code."""
    for number, name in ((0, os.devnull), *enumerate(request["output"], 1)):
        file = os.open(name, os.O_RDWR | os.O_CREAT)
        os.dup2(file, number)
        os.close(file)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.path[0] = request["folder"]
    sys.argv = [str(ROOT / "runner" / "__main__.py"), *request["arguments"]]
    signal.signal(signal.SIGALRM, signal.SIG_DFL)

    from runner.__main__ import run

    return run()


def _leave(code: int) -> NoReturn:
    """Ends this process as the interpreter does, but for taking every module apart, which takes a second."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _too_long(number: int, frame: object) -> None:
    raise TimeoutError


def _code(child: int, timeout: float) -> int | None:
    """The child's exit code, negative for a signal; None after a time-out, which ends it."""
    signal.setitimer(signal.ITIMER_REAL, timeout)
    try:
        status = os.waitpid(child, 0)[1]
    except TimeoutError:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(serve())
