"""Reads a ``.nsys-rep``: exports it to SQLite beside itself and reads that once.

The report lies in a scratch folder, so nothing has to be cleaned up.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
from pathlib import Path

from runner.profile import isolate
from runner.profile.nvtx import CAPTURE
from runner.streams import printable
from runner.timeline import sqlite
from runner.timeline.trace import Trace

_HINTS = ("usage:", "Try '", "Please refer to the troubleshooting", "https://")


class ReportError(RuntimeError):
    """The tool could not read its own report; the message holds the tool's last words."""


class Report:
    """One report file."""

    def __init__(self, nsys: Path, path: Path, timeout_s: float) -> None:
        self._nsys = nsys
        self.path = path
        self._timeout_s = timeout_s

    def read(self) -> Trace:
        """Raises ``ReportError`` or ``OSError``."""
        if self.path.stat().st_size == 0:
            raise ReportError(f"{self.path.name} is empty")
        export = self.path.with_name(self.path.name + ".sqlite")
        self._export(export)
        try:
            return sqlite.read(export)
        except sqlite3.Error as error:
            raise ReportError(f"{export.name} cannot be read ({error})") from error

    def _export(self, target: Path) -> None:
        try:
            done = subprocess.run(
                [
                    str(self._nsys), "export", "--type=sqlite", "--force-overwrite=true", "--quiet=true",
                    f"--output={target.name}", self.path.name,
                ],
                cwd=self.path.parent,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=self._timeout_s,
                check=False,
                stdin=subprocess.DEVNULL,
                # The tool's lock files would stay in the common /tmp.
                env={**os.environ, **isolate.of_scratch(self.path.parent)},
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise ReportError(f"nsys export did not end within {self._timeout_s:g} s") from error
        if done.returncode != 0:
            said = last_words(done.stdout + done.stderr) or "no message"
            raise ReportError(f"nsys export ended with code {done.returncode}: {said}")


def ranges(trace: Trace) -> list[str]:
    """Names of the ranges in order of their first start, without the capture's own."""
    return [name for name in trace.range_names() if name != CAPTURE]


def last_words(output: str) -> str:
    """The last two lines of what a tool said, of those about errors where there are any; without progress bars and
    hints at its help or its documentation. May be empty."""
    lines = [printable(line).strip() for line in output.replace("\r", "\n").splitlines()]
    told = [line for line in lines if line and "%" not in line and not line.startswith(_HINTS)]
    errors = [line for line in told if "error" in line.lower()]
    return " ".join((errors or told)[-2:])
