"""A PostgreSQL server of one's own: a data folder, a port on 127.0.0.1 and a password, all gone when it stops."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

USER = "runner"
PASSWORD = "s3cr3t"
_START_TIMEOUT_S = 30.0


def programs() -> Path | None:
    """The folder of ``initdb`` and ``postgres``: Debian keeps them off the PATH. None without one."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return installed[-1].parent if installed else None


def reason() -> str:
    """Why there can be no server here; empty when there can."""
    if programs() is None:
        return "no PostgreSQL server is installed (Debian, Ubuntu: apt-get install postgresql)"
    if os.geteuid() == 0 and _account() is None:
        return "PostgreSQL refuses to run as root, and there is no user postgres or nobody to run it as"
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return "psycopg is not installed: pip install '.[postgres]'"
    return ""


class Postgres:
    """A running server, with a database ``ready`` that MLflow has set up, once somebody has asked for it."""

    def __init__(self) -> None:
        found = programs()
        assert found is not None
        self._programs = found
        self.folder = Path(tempfile.mkdtemp(prefix="runner-postgres-"))
        self._process: subprocess.Popen[bytes] | None = None
        self.port = _free_port()
        if (account := _account()) is not None:
            os.chown(self.folder, account.pw_uid, account.pw_gid)
        secret = self.folder / "secret"
        secret.write_text(PASSWORD)
        if account is not None:
            os.chown(secret, account.pw_uid, account.pw_gid)
        self._run("initdb", "-D", f"{self.folder}/data", "-U", USER, "-A", "scram-sha-256", f"--pwfile={secret}",
                  "--no-sync", "-E", "UTF8", "--locale=C")  # fmt: skip
        self.start()

    def uri(self, database: str) -> str:
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    def create(self, database: str, template: str = "template1") -> str:
        """A new database; its URI."""
        self.execute(f'create database "{database}" template "{template}"')
        return self.uri(database)

    def execute(self, statement: str, database: str = "postgres") -> list[Any]:
        import psycopg

        with psycopg.connect(self.uri("postgres"), dbname=database, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def start(self) -> None:
        """Returns when it answers."""
        settings = {
            "listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": self.folder, "fsync": "off",
        }  # fmt: skip
        words = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        log = (self.folder / "log").open("ab")
        self._process = subprocess.Popen(
            [str(self._programs / "postgres"), "-D", f"{self.folder}/data", *words],
            stdout=log, stderr=log, **_identity(),
        )  # fmt: skip
        log.close()
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.folder / "log").read_text(errors="replace")[-2000:])
            time.sleep(0.05)

    @property
    def running(self) -> bool:
        return self._process is not None

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """``SIGINT`` ends all sessions in order, ``SIGQUIT`` at once, as a crash would."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(30)
            self._process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.uri("postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def _run(self, program: str, *words: str) -> None:
        subprocess.run([str(self._programs / program), *words], check=True, capture_output=True, **_identity())


def _account() -> pwd.struct_passwd | None:
    """Whom the server runs as where we are root; None where we are not, or nobody is there."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    return None


def _identity() -> dict[str, Any]:
    account = _account()
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": [], "cwd": "/"} if account else {}


def _free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])
