"""A result's folder → the artifacts of its run; what is too large stays where it is, and is named."""

from __future__ import annotations

import json
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from runner.config.schema import Tracking
from runner.record import spool
from runner.result.commit import FILE_NAME as DIFFERENCE
from runner.result.document import FILE_NAME as DOCUMENT
from runner.result.files import sha256
from runner.result.model import Result

CONFIG = "config.yaml"
"""The whole config of an experiment, in its folder; a result keeps all of it but the description of the family."""
REFERENCE = ".ref.json"
"""Suffix of the small file that stands for one that is not filed."""


class Repository(Protocol):
    """What MLflow's artifact repositories offer."""

    def log_artifact(self, local_file: str, artifact_path: str | None = None) -> None: ...


@dataclass(frozen=True)
class File:
    """One file of a run."""

    path: Path
    inside: str
    """Folder within the run's artifacts; empty = the top."""


def limit_bytes(result: Result) -> float:
    """``tracking.max_artifact_mb`` of the result's own config, in bytes."""
    tracking = result.config.get("tracking")
    megabytes = tracking.get("max_artifact_mb") if isinstance(tracking, dict) else None
    return float(Tracking.max_artifact_mb if megabytes is None else megabytes) * 1e6


def of_folder(folder: Path) -> Iterator[File]:
    """Every file below ``folder`` but hidden ones, sorted."""
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in inside.parts):
            parent = inside.parent.as_posix()
            yield File(path, "" if parent == "." else parent)


def log_result(repository: Repository, result: Result, folder: Path) -> None:
    """The result's own folder, and what it shares with others: the config of its experiment, the uncommitted code of
    its command, and by reference a raw report that lies with another variant."""
    limit = limit_bytes(result)
    known = {folder / report.path: report.sha256 for report in result.profile.reports}
    for file in of_folder(folder):
        _log(repository, file, limit, known)
    for path in known:
        if ".." in path.relative_to(folder).parts and path.is_file():
            _refer(repository, File(path, ""), known[path])
    if result.variant and (folder.parent / CONFIG).is_file():
        repository.log_artifact(str(folder.parent / CONFIG), None)
    sweep = spool.sweep_folder(folder.absolute())
    if sweep is not None and (sweep / spool.EVIDENCE_FOLDER / DIFFERENCE).is_file():
        repository.log_artifact(str(sweep / spool.EVIDENCE_FOLDER / DIFFERENCE), None)


def log_summary(repository: Repository, results: Sequence[Result], report: Path) -> None:
    """The report of a command, and the evidence beside it. ``results`` say how large a file may be."""
    limit = min(map(limit_bytes, results), default=Tracking.max_artifact_mb * 1e6)
    evidence = report.parent / spool.EVIDENCE_FOLDER
    for file in (*of_folder(report), *of_folder(evidence)):
        _log(repository, file, limit, {})


def _log(repository: Repository, file: File, limit: float, known: Mapping[Path, str]) -> None:
    """Files one file, or a reference to it when it is larger than ``limit`` bytes. ``known``: SHA-256 by path."""
    if file.path.stat().st_size <= limit or file.path.name == DOCUMENT:
        repository.log_artifact(str(file.path), file.inside or None)
    else:
        _refer(repository, file, known.get(file.path) or sha256(file.path))


def _refer(repository: Repository, file: File, digest: str) -> None:
    """Files ``<name>.ref.json`` in place of the file: where it lies, its size and its hash."""
    document = {
        "host": socket.gethostname(),
        "path": str(file.path.resolve()),
        "bytes": file.path.stat().st_size,
        "sha256": digest,
    }
    with tempfile.TemporaryDirectory() as place:
        reference = Path(place) / f"{file.path.name}{REFERENCE}"
        reference.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        repository.log_artifact(str(reference), file.inside or None)
