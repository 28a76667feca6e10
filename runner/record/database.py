"""How SQLite commits: MLflow makes six commits a run, and a full flush to the disk at each costs most of the time."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

_NETWORK = ("nfs", "cifs", "smb", "lustre", "gpfs", "beegfs", "ceph", "afs", "9p", "glusterfs", "sshfs", "wekafs")
_PRAGMAS: dict[str, tuple[str, ...]] = {}
"""Database file → what is set on each of its connections."""
_listening = False
_SETTING_UP = 5_203_617_844
"""Number of the advisory lock: any that nobody else takes."""


def quick(database: Path) -> None:
    """From now on this process commits to ``database`` through a write-ahead log, flushed at its checkpoints: a
    crash of the machine may cost the last runs, never the store. On a network file system, where such a log does
    not work, commits stay as they are."""
    if not on_network(database):
        _PRAGMAS[os.path.realpath(database)] = ("journal_mode=WAL", "synchronous=NORMAL")
        _listen()


def careless(database: Path) -> None:
    """Commits to a file that is thrown away should anything go wrong: no flush at all."""
    _PRAGMAS[os.path.realpath(database)] = ("journal_mode=MEMORY", "synchronous=OFF")
    _listen()


@contextmanager
def opened_alone(uri: str) -> Iterator[None]:
    """Where MLflow has not set up a PostgreSQL database yet, only one process at a time opens it: several at once fail
    over each other's tables. On one that is set up nobody waits; other databases are left to themselves."""
    import sqlalchemy

    if not uri.startswith("postgresql"):
        yield
        return
    engine = sqlalchemy.create_engine(uri, poolclass=sqlalchemy.NullPool)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        # MLflow writes its version last, in the transaction that makes the tables.
        if connection.execute(sqlalchemy.text("select to_regclass('alembic_version')")).scalar() is None:
            connection.execute(sqlalchemy.text(f"select pg_advisory_lock({_SETTING_UP})"))  # until we disconnect
            yield
            return
    yield


def on_network(path: Path) -> bool:
    """True when ``path`` lies on a file system shared over a network."""
    name = os.path.realpath(path)
    mounts = [part for part in psutil.disk_partitions(all=True) if _below(name, part.mountpoint)]
    if not mounts:
        return False
    nearest = max(mounts, key=lambda part: len(part.mountpoint))
    return any(word in nearest.fstype.lower() for word in _NETWORK)


def flush(path: Path) -> None:
    """Brings a finished file to the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _below(name: str, mount: str) -> bool:
    return name == mount or name.startswith(mount.rstrip("/") + "/")


def _listen() -> None:
    global _listening
    if not _listening:
        from sqlalchemy import event
        from sqlalchemy.engine import Engine

        event.listen(Engine, "connect", _connected)
        _listening = True


def _connected(connection: Any, record: Any) -> None:
    """Called by SQLAlchemy for every new connection to any database."""
    if not isinstance(connection, sqlite3.Connection):
        return
    file = connection.execute("pragma database_list").fetchone()[2]
    for pragma in _PRAGMAS.get(os.path.realpath(file), ()) if file else ():
        connection.execute(f"pragma {pragma}")
