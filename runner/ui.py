"""``python -m runner.ui [port=5000] [uri=…]``: MLflow's UI over the store, on this machine only. Ctrl-C stops it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from runner import command_line
from runner.config.errors import choose_from
from runner.exit_codes import PASSED
from runner.record import probe
from runner.record.links import UI_PORT
from runner.record.location import Location, TrackingUnavailable, locate

USAGE = "usage: python -m runner.ui [port=5000] [uri=<tracking uri>]"
HOST = "127.0.0.1"
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; the exit code."""
    failed = (ValueError, TrackingUnavailable)
    return command_line.run(f"{__doc__}\n{USAGE}", USAGE, arguments, _parse, _checked_and_served, failed=failed)


def _checked_and_served(asked: tuple[int, Location]) -> int:
    port, location = asked
    return serve(port, location) if _check(port, location) else PASSED


def command(port: int) -> list[str]:
    """The server's command line. The store's URI is not on it: other users see command lines."""
    arguments = ["ui", "--host", HOST, "--port", str(port), "--workers", "1"]
    return [sys.executable, "-m", "mlflow", *arguments]


def environment(location: Location, base: Mapping[str, str]) -> dict[str, str]:
    """The server's environment: where the store is, and none of the extra processes MLflow starts by default."""
    return {
        **base,
        "MLFLOW_BACKEND_STORE_URI": location.uri,
        "MLFLOW_DEFAULT_ARTIFACT_ROOT": location.artifacts,
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }


def serve(port: int, location: Location) -> int:
    """Serves until Ctrl-C or until the server ends; the exit code."""
    folder = Path(location.artifacts).parent
    print(f"serving {location.shown}; it takes a few seconds …", flush=True)
    server = subprocess.Popen(
        command(port),
        env=environment(location, os.environ),
        cwd=folder if folder.is_dir() else None,  # MLflow leaves files in its working folder
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # Ctrl-C reaches this process alone, which then stops the server in order
    )
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return _watch(server, port)
    except KeyboardInterrupt:
        print("stopped", flush=True)
        return 0
    finally:
        _stop(server)


def _watch(server: subprocess.Popen[str], port: int) -> int:
    """Announces the address once the server answers, then waits for its end."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while server.poll() is None and not _answers(port):
        if time.monotonic() > deadline:
            print(f"the server did not answer within {START_TIMEOUT_S:.0f} s", file=sys.stderr)
            return 1
        time.sleep(0.2)
    if server.poll() is None:
        print(f"http://{HOST}:{port}  (Ctrl-C stops it)", flush=True)
    assert server.stdout is not None
    last = deque((line for line in server.stdout if line.strip()), maxlen=5)  # read on: a full pipe blocks it
    code = server.wait()
    if code:
        print("the server ended:\n" + "".join(last), file=sys.stderr)
    return 1 if code else 0


def _parse(words: Sequence[str]) -> tuple[int, Location]:
    options = {"port": str(UI_PORT), "uri": ""}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in options:
            raise ValueError(f"{word}: no such argument; {choose_from(key, options)}")
        options[key] = value
    if not options["port"].isdecimal() or not 0 < int(options["port"]) < 65536:
        raise ValueError(f"port={options['port']}: must be a number from 1 to 65535")
    return int(options["port"]), locate(options["uri"])


def _check(port: int, location: Location) -> bool:
    """True when there is something to serve. Raises ``ValueError`` with what to do about it otherwise."""
    if location.kind == "server":
        print(f"this store is a server with its own UI: {location.shown}")
        return False
    if location.kind == "sqlite" and not os.path.isfile(location.database):
        raise ValueError(
            f"there is no store at {location.database} yet: run an experiment first, or give uri=sqlite:///<file>"
        )
    if location.kind == "sqlite":
        probe.check_file(location)
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((HOST, port))
        except OSError as error:
            raise ValueError(
                f"port {port} cannot be used ({error.strerror}): choose another, python -m runner.ui port={port + 1}"
            ) from None
    return True


def _answers(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=0.5).close()
    except OSError:
        return False
    return True


def _stop(server: subprocess.Popen[str]) -> None:
    """Ends the server and the workers it started."""
    try:
        family = [psutil.Process(server.pid), *psutil.Process(server.pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for process in family:
        _signal(process, signal.SIGTERM)
    _, alive = psutil.wait_procs(family, timeout=STOP_TIMEOUT_S)
    for process in alive:
        _signal(process, signal.SIGKILL)


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
