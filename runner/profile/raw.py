"""Raw reports: what is told of a file that may be too large to be kept with the result."""

from __future__ import annotations

from pathlib import Path

from runner.result.files import sha256
from runner.result.model import RawReport


def raw_report(folder: Path, name: str) -> RawReport:
    """Of the file ``name``, a path relative to the result's ``folder``. Raises ``OSError``."""
    path = folder / name
    return RawReport(name, path.stat().st_size, sha256(path))
