"""Can the store be used at all? Quick checks before MLflow starts its own retries, and its errors in one line."""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import sqlite3
from urllib.parse import quote

from runner.record.location import Location, TrackingUnavailable

CONNECT_TIMEOUT_S = 3.0
LEAST_FREE_BYTES = 16 << 20
_REFUSAL = re.compile(r"\b(error code|status|status code|http)\W{0,3}40[13]\b")
_NO_TABLE = ("no such table", "undefinedtable", "(1146,", "invalid object name")
"""As SQLite, PostgreSQL, MySQL and SQL Server say it."""


def check(location: Location) -> None:
    """Raises ``TrackingUnavailable`` when the store certainly cannot be used; takes 3 s at most."""
    if location.kind == "sqlite":
        _check_sqlite(location)
    elif location.kind == "database" and location.endpoint:
        _check_endpoint(location, *location.endpoint)
    # A server is asked by MLflow's client itself, which knows about proxies.


def check_readable(location: Location) -> None:
    """``check`` for one who only reads: no room and no right to write are needed."""
    if location.kind == "sqlite":
        check_file(location)
    else:
        check(location)


def explain(location: Location, error: BaseException) -> str:
    """One line for the user: what failed and what to do, free of passwords."""
    text = location.scrub(" ".join(str(error).split()))
    lower = text.lower()
    where = location.shown
    if "out-of-date database schema" in lower or "can't locate revision" in lower:
        return (
            f"{where} was made by another MLflow version: install that version, or back the database up and "
            f"run `mlflow db upgrade {where}`"
        )
    if _errno(error) == errno.ENOSPC or "disk is full" in lower or "no space left" in lower:
        return f"no space left for {where}; free some, then send what is left"
    if "readonly database" in lower or "unable to open database" in lower or _errno(error) == errno.EACCES:
        return f"{where} cannot be written: check the owner of the folder and its mode"
    if "database is locked" in lower:
        return f"{where} is locked by another process; send what is left when that has ended"
    if "disk image is malformed" in lower:
        return f"{where} is damaged: put a copy of it back, or name another store; results lie on disk as well"
    if any(words in lower for words in _NO_TABLE):
        return f"{where} is a database without MLflow's tables: name another one, or file a result there first"
    if isinstance(error, ModuleNotFoundError) and error.name == "psycopg":
        return f"{where} needs a driver: pip install 'gpu-kernel-runner[postgres]'"
    if isinstance(error, ModuleNotFoundError):
        return f"{where} needs the Python package {error.name}: pip install {error.name}"
    if "connection refused" in lower or "failed to establish" in lower or "name or service not known" in lower:
        return f"{where} does not answer: is the server running?"
    if "timed out" in lower or "timeout" in lower:
        return f"{where} does not answer in time"
    if "unauthorized" in lower or _REFUSAL.search(lower):
        return f"{where} refuses this user: {_short(text)}"
    kind = type(error).__name__
    return f"{where}: {_short(text)}" if kind == "MlflowException" else f"{where}: {kind}: {_short(text)}"


def _check_sqlite(location: Location) -> None:
    database = location.database
    folder = database.parent
    while not os.path.exists(folder):
        folder = folder.parent
    if os.path.isfile(database):
        if not os.access(database, os.W_OK):
            raise TrackingUnavailable(f"{location.shown} cannot be written: check its owner and mode")
        check_file(location)
    elif os.path.exists(database):
        raise TrackingUnavailable(f"{location.shown} is not a file: name the database, {database / 'mlflow.db'}")
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK | os.X_OK):
        raise TrackingUnavailable(f"{location.shown} cannot be made: {folder} is not a folder we may write to")
    if shutil.disk_usage(folder).free < LEAST_FREE_BYTES:
        raise TrackingUnavailable(f"no space left for {location.shown}; free some, then send what is left")


def check_file(location: Location) -> None:
    """Raises ``TrackingUnavailable`` for a file that is no SQLite database: it would cost MLflow's retries."""
    try:
        connection = sqlite3.connect(f"file:{quote(str(location.database))}?mode=ro", uri=True, timeout=3.0)
        try:
            connection.execute("select count(*) from sqlite_master").fetchone()
        finally:
            connection.close()
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # the second: of a name in a damaged file
        if "locked" in str(error):
            return  # somebody writes: it is a database
        if "readonly" in str(error):  # a write-ahead log has files beside the database, also for those who only read
            raise TrackingUnavailable(
                f"{location.shown} cannot be read where its folder cannot be written; copy it to one that can"
            ) from None
        raise TrackingUnavailable(f"{location.shown} is not a usable SQLite database: {error}") from None


def _check_endpoint(location: Location, host: str, port: int) -> None:
    try:
        socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise TrackingUnavailable(f"{location.shown} does not answer on {host}:{port}: {reason}") from None


def _errno(error: BaseException | None) -> int | None:
    """The operating system's error number, also of the error's cause."""
    while error is not None:
        if isinstance(error, OSError) and error.errno:
            return error.errno
        error = error.__cause__ or error.__context__
    return None


def _short(text: str) -> str:
    return text if len(text) <= 300 else text[:300] + " …"
