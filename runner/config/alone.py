"""One command at a time in a folder of results: two would write over each other's."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from filelock import FileLock, Timeout

from runner.config.errors import ConfigError

LOCK_FILE = ".running.lock"
_held: dict[Path, FileLock] = {}
"""Until this process ends, however it ends: a lock goes with its process."""


def claim(folder: Path, points: Iterable[Path] = ()) -> None:
    """Makes ``folder`` this command's, with the folders of its ``points``. Raises ``ConfigError`` where another one is
    still writing there, ``OSError`` where nothing can be written."""
    folder = folder.absolute()
    if folder in _held:
        return
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK_FILE, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise _taken(folder) from None
    # A sweep's points lie in its folder: what is begun in one of theirs, or in what holds one, meets them.
    for near in (folder.parent, *(point.absolute() for point in points)):
        if near != folder and near not in _held and _is_taken(near):
            lock.release()
            raise _taken(near)
    _held[folder] = lock


def _is_taken(folder: Path) -> bool:
    if not (folder / LOCK_FILE).is_file():
        return False
    try:
        with FileLock(folder / LOCK_FILE, timeout=0):
            return False
    except Timeout:
        return True
    except OSError:  # not ours to look at
        return False


def _taken(folder: Path) -> ConfigError:
    return ConfigError(
        f"{folder}: another command is writing its results there; wait for its end, or name another folder with "
        "hydra.run.dir=… (with -m: hydra.sweep.dir=…)"
    )
