"""A program's plan without the configuration round it."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.plan.model import CommandPlan, ReadyPlan

Make = Callable[..., CommandPlan]


@pytest.fixture
def program(tmp_path: Path) -> Make:
    """``program(code, *arguments, **fields)``: Python code as the program."""

    def make(code: str, *arguments: str, **fields: Any) -> CommandPlan:
        values: dict[str, Any] = {"environment": {}, "warmup": 0, "repeat": 1, "metrics": {}, **fields}
        argv = (sys.executable, "-c", code, *arguments)
        return CommandPlan(argv=argv, shown="python -c …", folder=str(tmp_path), **values)

    return make


SERVER = """
import http.server, os, signal, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(int(self.path.strip("/") or 200))
        self.end_headers()
        self.wfile.write(b"hello")
    def log_message(self, *words): pass
if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print("listening", flush=True)
server.serve_forever()
"""
"""``SERVER port [stubborn]``"""

LOAD = """
import sys, urllib.request
print("got", urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/").read().decode(), "5 req")
"""


@pytest.fixture
def server(program: Make) -> Make:
    """``server(port, *arguments, ready=…, load=code)``."""

    def make(port: int, *arguments: str, ready: str = "port", load: str = LOAD, **fields: Any) -> CommandPlan:
        signs = {"port": str(port), "url": f"http://127.0.0.1:{port}/", "output": "^listen", "never": "never said"}
        kind: Any = "output" if ready == "never" else ready
        sign = ReadyPlan(kind, signs[ready], fields.pop("ready_s", 20.0))
        code = fields.pop("code", SERVER)
        return program(code, str(port), *arguments, ready=sign, load=(sys.executable, "-c", load, str(port)), **fields)

    return make


@pytest.fixture
def port() -> int:
    """A port that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
