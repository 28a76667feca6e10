"""Starts and stops the collection of a running ``nsys profile --start-later``, for a server's load."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from runner.profile import isolate
from runner.profile.base import Window
from runner.profile.report import last_words

_START_S = 60.0


class SessionWindow(Window):
    """The report is written when the window ends; the program runs on."""

    def __init__(self, nsys: Path, session: str, scratch: Path, timeout_s: float) -> None:
        """``timeout_s``: for writing the report."""
        self._nsys = nsys
        self._session = session
        self._scratch = scratch
        self._timeout_s = timeout_s
        self.problem = ""
        """What went wrong, empty when nothing did."""

    def begin(self, name: str) -> None:
        self._tell("start", _START_S)

    def end(self, name: str) -> None:
        if not self.problem:
            self._tell("stop", self._timeout_s)

    def _tell(self, what: str, timeout_s: float) -> None:
        prefix = isolate.enter(self._scratch)
        if prefix is None:
            self.problem = f"nsys {what} found no nsys to talk to: it ended before"
            return
        try:
            done = subprocess.run(
                [*prefix, str(self._nsys), what, f"--session={self._session}"],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout_s,
                check=False,
                stdin=subprocess.DEVNULL,
                # Sessions are known by files in this folder.
                env={**os.environ, **isolate.of_scratch(self._scratch)},
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            self.problem = f"nsys {what} failed: {error}"
            return
        if done.returncode != 0:
            said = last_words(done.stdout + done.stderr) or "it said nothing"
            self.problem = f"nsys {what} ended with code {done.returncode} ({said})"
