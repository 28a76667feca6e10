"""Memory and CPU time of a program with its children, sampled while it runs."""

from __future__ import annotations

import threading
import time

import psutil

FIRST_S = 0.005
"""Pause before the first sample; it then doubles up to ``PAUSE_S``."""
PAUSE_S = 0.05
COST = 20
"""A pause is at least this many times as long as taking a sample: 5 % of one core at most."""


class Usage:
    """Samples from the start of a process until ``stop``."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._ended = threading.Event()
        self._peak = 0
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def peak_mb(self) -> float | None:
        """Largest sum of the resident sets seen, 1e6 byte; pages that processes share count for each. None where the
        program ended before the first sample."""
        return self._peak / 1e6 if self._peak else None

    def cpu_s(self) -> float:
        """Processor time so far of the processes that live and of the children they waited for."""
        total = 0.0
        for process in self._tree():
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue  # ended meanwhile
            total += times.user + times.system + times.children_user + times.children_system
        return total

    def _sample(self) -> None:
        pause = FIRST_S
        while not self._ended.wait(pause):
            begin = time.perf_counter()
            self._peak = max(self._peak, sum(map(_resident, self._tree())))
            pause = max(min(2 * pause, PAUSE_S), COST * (time.perf_counter() - begin))

    def _tree(self) -> list[psutil.Process]:
        try:
            process = psutil.Process(self._pid)
            return [process, *process.children(recursive=True)]
        except psutil.Error:
            return []  # it ended


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0  # ended meanwhile
