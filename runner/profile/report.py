"""Reads a ``.nsys-rep``: exports it to SQLite, looks once, and writes the summary tables as CSV.

Everything is written beside the report, which lies in a scratch folder; nothing has to be cleaned up.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from runner.profile.nvtx import CAPTURE

_TABLES = (
    # our name, names by version of the tool (2022.4 renamed them), what must be there
    ("nvtx_sum", ("nvtx_sum", "nvtxsum"), "ranges"),
    ("nvtx_kern_sum", ("nvtx_kern_sum", "nvtxkernsum"), "kernels"),
    ("cuda_gpu_kern_sum", ("cuda_gpu_kern_sum", "gpukernsum"), "kernels"),
    ("cuda_gpu_mem_time_sum", ("cuda_gpu_mem_time_sum", "gpumemtimesum"), "copies"),
    ("cuda_api_sum", ("cuda_api_sum", "cudaapisum"), "api_calls"),
    ("osrt_sum", ("osrt_sum", "osrtsum"), "os_calls"),
)
_PUSH_POP, _START_END = 59, 60
"""``eventType`` of the two kinds of NVTX range."""


class ReportError(RuntimeError):
    """The tool could not read its own report; the message holds the tool's last words."""


@dataclass
class Reading:
    """What one report holds."""

    ranges: list[str] = field(default_factory=list)
    """Closed ranges in order of their start, each name once, without the capture's own."""
    kernels: int = 0
    copies: int = 0
    api_calls: int = 0
    os_calls: int = 0


class Report:
    """One report file; ``read`` before ``tables``."""

    def __init__(self, nsys: Path, path: Path, timeout_s: float) -> None:
        self._nsys = nsys
        self.path = path
        self._timeout_s = timeout_s
        self._export = path.with_name(path.name + ".sqlite")

    def read(self) -> Reading:
        """Raises ``ReportError``."""
        if self.path.stat().st_size == 0:
            raise ReportError(f"{self.path.name} is empty")
        target = f"--output={self._export.name}"
        self._run("export", "--type=sqlite", "--force-overwrite=true", "--quiet=true", target, self.path.name)
        try:
            return _look(self._export)
        except sqlite3.Error as error:
            raise ReportError(f"{self._export.name} cannot be read ({error})") from error

    def tables(self, reading: Reading) -> dict[str, Path]:
        """CSV files by our table name, for the tables this version knows and the report has data for.

        Raises ``ReportError``.
        """
        known = _known_tables(str(self._nsys))
        wanted = {}
        for name, aliases, needs in _TABLES:
            alias = next((alias for alias in aliases if alias in known), "")
            if alias and getattr(reading, needs):
                wanted[name] = alias
        if not wanted:
            return {}
        base = self.path.name.removesuffix(".nsys-rep")
        self._run(
            "stats", "--format=csv", f"--output={base}", "--force-overwrite=true", "--force-export=false",
            *(f"--report={alias}" for alias in wanted.values()), self._export.name,
        )  # fmt: skip
        files = {name: self.path.with_name(f"{base}_{alias}.csv") for name, alias in wanted.items()}
        return {name: file for name, file in files.items() if file.is_file() and file.stat().st_size > 0}

    def _run(self, *arguments: str) -> None:
        try:
            done = subprocess.run(
                [str(self._nsys), *arguments],
                cwd=self.path.parent,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=self._timeout_s,
                check=False,
                stdin=subprocess.DEVNULL,
                # The tool's lock files would stay in the common /tmp.
                env={**os.environ, "TMPDIR": str(self.path.parent)},
            )
        except subprocess.TimeoutExpired as error:
            raise ReportError(f"nsys {arguments[0]} did not end within {self._timeout_s:g} s") from error
        if done.returncode != 0:
            lines = (done.stdout + done.stderr).strip().splitlines()
            last = lines[-1] if lines else "no message"
            raise ReportError(f"nsys {arguments[0]} ended with code {done.returncode}: {last}")


def _look(database: Path) -> Reading:
    reading = Reading()
    with contextlib.closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")}

        def count(*names: str) -> int:
            present = tables.intersection(f"CUPTI_ACTIVITY_KIND_{name}" for name in names)
            return sum(connection.execute(f"SELECT COUNT(*) FROM {name}").fetchone()[0] for name in present)

        if "NVTX_EVENTS" in tables:
            reading.ranges = _ranges(connection)
        # A graph traced as a whole shows its launches instead of its kernels.
        reading.kernels = count("KERNEL", "GRAPH_TRACE")
        reading.copies = count("MEMCPY", "MEMSET")
        reading.api_calls = count("RUNTIME", "DRIVER")
        if "OSRT_API" in tables:
            reading.os_calls = connection.execute("SELECT COUNT(*) FROM OSRT_API").fetchone()[0]
    return reading


def _ranges(connection: sqlite3.Connection) -> list[str]:
    """Names of the closed ranges in order of their start, each once, without the capture's own.

    A name is in the event itself, or in the table of strings when it was registered.
    """
    columns = {row[1] for row in connection.execute("PRAGMA table_info(NVTX_EVENTS)")}
    name, join = "event.text", ""
    if "textId" in columns:
        name = "COALESCE(event.text, string.value)"
        join = "LEFT JOIN StringIds AS string ON string.id = event.textId"
    rows = connection.execute(
        f"SELECT {name} FROM NVTX_EVENTS AS event {join} "
        "WHERE event.eventType IN (?, ?) AND event.end IS NOT NULL ORDER BY event.start",
        (_PUSH_POP, _START_END),
    )
    return list(dict.fromkeys(row[0] for row in rows if row[0] and row[0] != CAPTURE))


@lru_cache(maxsize=8)
def _known_tables(nsys: str) -> frozenset[str]:
    """Names of the tables this version can make."""
    done = subprocess.run(
        [nsys, "stats", "--help-reports"],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=60,
        check=False,
    )
    names = (line.strip().split(" ")[0] for line in (done.stdout + done.stderr).splitlines() if " -- " in line)
    return frozenset(name.split("[")[0].split(":")[0] for name in names)
