"""What is told of a file that may be too large to be kept with a result."""

from __future__ import annotations

import hashlib
from pathlib import Path

_BLOCK = 1 << 20


def sha256(path: Path) -> str:
    """Of the file's contents, in hex. Raises ``OSError``."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
