"""Raw reports: what is told of a file that may be too large to be kept with the result."""

from __future__ import annotations

import hashlib
from pathlib import Path

from runner.result.model import RawReport

_CHUNK = 1 << 20


def raw_report(folder: Path, name: str) -> RawReport:
    """Of the file ``name``, a path relative to the result's ``folder``. Raises ``OSError``."""
    digest = hashlib.sha256()
    size = 0
    with (folder / name).open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return RawReport(name, size, digest.hexdigest())
