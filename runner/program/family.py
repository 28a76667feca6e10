"""All processes that belong to one started program, wherever they went."""

from __future__ import annotations

import os

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
