"""One command at a time in a folder of results: two would write over each other's."""

from __future__ import annotations

from pathlib import Path

from filelock import FileLock, Timeout

from runner.config.errors import ConfigError

LOCK_FILE = ".running.lock"
_held: dict[Path, FileLock] = {}
"""Until this process ends, however it ends: a lock goes with its process."""


def claim(folder: Path) -> None:
    """Makes ``folder`` this command's. Raises ``ConfigError`` where another one is still writing there, ``OSError``
    where nothing can be written."""
    folder = folder.absolute()
    if folder in _held:
        return
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK_FILE, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise ConfigError(
            f"{folder}: another command is writing its results there; wait for its end, or name another folder with "
            "hydra.run.dir=… (with -m: hydra.sweep.dir=…)"
        ) from None
    _held[folder] = lock
