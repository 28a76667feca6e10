"""Processes that are found again by a variable in their environment, wherever they went, and their end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable

import psutil


def marked(variable: str, value: str) -> list[psutil.Process]:
    """Those with ``variable`` set to ``value``, as far as they may be looked into."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(variable) == value:
                found.append(process)
        except psutil.Error:
            continue  # gone meanwhile, or another user's
    return found


def end(processes: Iterable[psutil.Process], timeout_s: float = 5.0) -> None:
    """Kills them and waits until they are gone.

    Not by psutil's wait, which would take a child's exit code away from whoever started it.
    """
    ended = list(processes)
    for process in ended:
        with contextlib.suppress(psutil.Error):  # gone meanwhile
            process.kill()
    deadline = time.monotonic() + timeout_s
    while any(map(lives, ended)) and time.monotonic() < deadline:
        time.sleep(0.005)


def lives(process: psutil.Process) -> bool:
    """Whether it still runs; one that only waits to be reaped does not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
