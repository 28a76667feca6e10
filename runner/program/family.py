"""All processes that belong to one started program, wherever they went."""

from __future__ import annotations

import os
import time

import psutil

MARK = "RUNNER_PROGRAM"
"""Variable set in a started program: its descendants are known by it, also those that left its session."""


def members(leader: int, mark: str) -> list[psutil.Process]:
    """Living processes of ``leader``'s session or with ``mark`` in their environment, oldest first."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            ours = os.getsid(process.pid) == leader or process.environ().get(MARK) == mark
            if ours and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, OSError):
            continue  # gone meanwhile, or another user's
    return sorted(found, key=lambda process: process.create_time())


def end(processes: list[psutil.Process], timeout_s: float = 5.0) -> None:
    """Kills them and waits until they are gone."""
    for process in processes:
        try:
            process.kill()
        except psutil.Error:
            continue  # gone meanwhile
    deadline = time.monotonic() + timeout_s
    while any(map(lives, processes)) and time.monotonic() < deadline:
        time.sleep(0.005)


def lives(process: psutil.Process) -> bool:
    """Whether it still runs; one that only waits to be reaped does not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
