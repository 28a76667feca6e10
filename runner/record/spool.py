"""What lies on disk before a tracker sees it: results, the marker of their sweep, and what has been filed.

    <sweep folder>/sweep.json                      which command, when, how it ended
    <job folder>/<variant>/result.json             one result
    <job folder>/<variant>/.filed                  where that result was filed; missing, or of another one = not yet
    <sweep folder>/.filed                          the same for the sweep's summary
    <sweep folder>/report/                         table and plots
    <sweep folder>/evidence/                       what all its results share: topology of the GPUs, uncommitted code

A job folder is the sweep folder itself or lies inside it. Every write is atomic.
"""

from __future__ import annotations

import dataclasses
import json
import os
import socket
from dataclasses import dataclass, field
from datetime import datetime, timezone
from enum import Enum
from pathlib import Path
from typing import Any

import psutil

from runner.result import clock
from runner.result.document import FILE_NAME, DocumentError, build, parsed, read_id, write_text

SWEEP_FILE = "sweep.json"
FILED_FILE = ".filed"
REPORT_FOLDER = "report"
EVIDENCE_FOLDER = "evidence"
STORE_FOLDER = "mlruns"
DEFAULT_FOLDERS = ("outputs", "multirun")
"""Where commands lie, below the folder that they were started in, unless they say otherwise."""


class SweepStatus(str, Enum):
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    """Every experiment was attempted; some may have failed."""
    FAILED = "FAILED"
    """The sweep itself broke."""
    KILLED = "KILLED"
    """Interrupted: Ctrl-C, or its process is gone."""


@dataclass
class Sweep:
    """One command. ``command`` and ``tracking_uri`` are already redacted."""

    sweep_id: str
    command: str = ""
    started: str = ""
    """ISO 8601, UTC."""
    ended: str = ""
    status: SweepStatus = SweepStatus.RUNNING
    swept: list[str] = field(default_factory=list)
    """Override keys the sweep varies, slowest first: ``shape.context``."""
    experiments: int = 0
    """How many experiments were planned; 0 = unknown."""
    tracking: bool = True
    """False: the user wants these results in no tracker."""
    tracking_uri: str = ""
    """Where they were meant to go; empty = the default store."""
    host: str = ""
    pid: int = 0
    pid_started: float = 0.0
    """When that process started: a process id is used again after a while."""

    @classmethod
    def begin(cls, sweep_id: str, **values: Any) -> Sweep:
        """A sweep that this process starts now."""
        process = psutil.Process()
        return cls(
            sweep_id,
            started=clock.now(),
            host=socket.gethostname(),
            pid=process.pid,
            pid_started=process.create_time(),
            **values,
        )


def write_sweep(sweep: Sweep, folder: Path) -> None:
    """Writes ``sweep.json``. Raises ``DocumentError``."""
    document = dataclasses.asdict(sweep) | {"status": sweep.status.value}
    write_text(folder / SWEEP_FILE, json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def read_sweep(folder: Path) -> Sweep:
    """Reads ``sweep.json``. Raises ``DocumentError`` naming the file."""
    path = folder / SWEEP_FILE
    try:
        document = parsed(path.read_text(encoding="utf-8"))
        known = {f.name for f in dataclasses.fields(Sweep)}
        values = {key: value for key, value in document.items() if key in known}
        return build(Sweep, values | {"status": values["status"]}, "")
    except OSError as error:
        raise DocumentError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DocumentError(f"cannot read {path}: not a sweep marker ({error})") from error


def is_stale(sweep: Sweep) -> bool:
    """True when the sweep says RUNNING and its process no longer lives. Unknown for another host: False."""
    if sweep.status is not SweepStatus.RUNNING or sweep.host != socket.gethostname():
        return False
    try:
        return abs(psutil.Process(sweep.pid).create_time() - sweep.pid_started) > 1.0
    except (psutil.NoSuchProcess, ValueError, OverflowError):  # or a number that no process can have
        return True
    except psutil.AccessDenied:
        return False


def close_stale(folder: Path) -> bool:
    """Marks a sweep whose process is gone as KILLED; its end is the time of its last result."""
    sweep = read_sweep(folder)
    if not is_stale(sweep):
        return False
    times = [path.stat().st_mtime for path in results(folder)]
    last = max(times, default=(folder / SWEEP_FILE).stat().st_mtime)
    ended = clock.written(datetime.fromtimestamp(last, timezone.utc))
    write_sweep(dataclasses.replace(sweep, status=SweepStatus.KILLED, ended=ended), folder)
    return True


def results(root: Path) -> list[Path]:
    """Every ``result.json`` below ``root``, sorted."""
    return files(root, FILE_NAME)


def sweeps(root: Path) -> list[Path]:
    """Every sweep folder at or below ``root``, sorted."""
    return [path.parent for path in files(root, SWEEP_FILE)]


def unsent(root: Path) -> list[Path]:
    """Folders of the results below ``root`` that no tracker has yet, sorted."""
    return [path.parent for path in results(root) if not is_filed(path.parent)]


def is_filed(folder: Path) -> bool:
    """True when the result (or the sweep's summary) that lies in ``folder`` now has been filed: a command that was run
    again in its folder leaves the marker of the one before."""
    marker = _marker(folder)
    if marker is None:
        return False
    if "id" in marker:
        return bool(marker["id"] == _id_in(folder))
    try:  # a marker of an earlier version does not say whose it is
        return _document(folder).stat().st_mtime <= (folder / FILED_FILE).stat().st_mtime
    except OSError:
        return False


def mark_filed(folder: Path, tracker: str, run_id: str, identity: str) -> None:
    """Notes where the result (or the summary) of that ``id`` (``sweep_id``) was filed; ``tracker`` is a redacted URI.
    Raises ``DocumentError``."""
    document = {"tracker": tracker, "run_id": run_id, "id": identity, "filed": clock.now()}
    write_text(folder / FILED_FILE, json.dumps(document) + "\n")


def filed_run(folder: Path) -> str:
    """The run in which the result (or the summary) in ``folder`` was filed; empty when it was not."""
    marker = _marker(folder) if is_filed(folder) else None
    return str((marker or {}).get("run_id", ""))


def _marker(folder: Path) -> dict[str, Any] | None:
    """What ``.filed`` says; nothing in particular where it cannot be read, None where there is none."""
    try:
        document = parsed((folder / FILED_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _document(folder: Path) -> Path:
    """What a marker in ``folder`` is about."""
    result = folder / FILE_NAME
    return result if result.is_file() else folder / SWEEP_FILE


def _id_in(folder: Path) -> str | None:
    """Of the result or the sweep in ``folder``; None where neither can be read."""
    path = _document(folder)
    try:
        return read_id(path) if path.name == FILE_NAME else read_sweep(folder).sweep_id
    except DocumentError:
        return None


def sweep_folder(result_folder: Path) -> Path | None:
    """The sweep a result belongs to: the nearest folder above it with a marker."""
    for folder in (result_folder, *result_folder.parents):
        if (folder / SWEEP_FILE).is_file():
            return folder
    return None


def files(root: Path, name: str) -> list[Path]:
    """Files called ``name``; not in hidden folders, nor in a store, which holds copies of results."""
    found = []
    for folder, subfolders, files in os.walk(root):
        subfolders[:] = [each for each in subfolders if each != STORE_FOLDER and not each.startswith(".")]
        if name in files:
            found.append(Path(folder) / name)
    return sorted(found)
