"""Waits until a server can take load: a port that accepts, a URL that answers, or a line of its output."""

from __future__ import annotations

import http.client
import socket
import time
import urllib.error
import urllib.request

from runner.plan.model import ReadyPlan
from runner.program.process import Process, ProgramFailed
from runner.result.model import Status

_PAUSE_S = 0.02
_ANSWER_S = 2.0
"""One attempt may take this long."""
_LOOPBACK = ("127.0.0.1", "::1")


def check_free(ready: ReadyPlan) -> None:
    """Raises ``ProgramFailed`` where something already answers: the load would go to another server than ours."""
    if ready.kind != "output" and _answers(ready):
        what = f"port {ready.value}" if ready.kind == "port" else ready.value
        raise ProgramFailed(
            Status.RUNTIME_ERROR,
            f"{what} already answers before the server is started: end what runs there, or use another",
        )


def wait_ready(ready: ReadyPlan, server: Process, timeout_s: float) -> None:
    """Returns once the server can take load. Raises ``ProgramFailed`` when it ends before, or takes too long."""
    deadline = time.monotonic() + timeout_s
    while not (_has_said(server) if ready.kind == "output" else _answers(ready)):
        if server.wait(_PAUSE_S):
            raise ProgramFailed(Status.RUNTIME_ERROR, f"the server {server.how()} (before it was ready)")
        if time.monotonic() > deadline:
            last = server.last_line()
            said = f"; it said last: {last}" if last else "; it said nothing"
            raise ProgramFailed(
                Status.TIMEOUT,
                f"the server was not ready within {timeout_s:g} s: {_missing(ready)}{said}. {_advice(ready)}",
            )


def _missing(ready: ReadyPlan) -> str:
    if ready.kind == "port":
        return f"nothing accepts connections on port {ready.value}"
    if ready.kind == "url":
        return f"{ready.value} does not answer with a status below 400"
    return f"no line of its output matches {ready.value!r}"


def _advice(ready: ReadyPlan) -> str:
    advice = "Raise command.ready.timeout_s if it needs longer"
    if ready.kind == "output":
        advice += "; Python holds lines back when it writes to no terminal: command.environment.PYTHONUNBUFFERED=1"
    return advice


def _has_said(server: Process) -> bool:
    return server.stdout.seen.is_set() or server.stderr.seen.is_set()


def _answers(ready: ReadyPlan) -> bool:
    if ready.kind == "url":
        return _responds(ready.value)
    return any(_accepts(host, int(ready.value)) for host in _LOOPBACK)


def _accepts(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=_ANSWER_S):
            return True
    except OSError:
        return False


def _responds(url: str) -> bool:
    # No proxy: the server stands on this machine, or where the URL says.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=_ANSWER_S):
            return True
    except (urllib.error.URLError, http.client.HTTPException, OSError):
        return False
