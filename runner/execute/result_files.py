"""Results that a user names by a file or a folder."""

from __future__ import annotations

import os
from pathlib import Path

from runner.config.errors import ConfigError
from runner.execute.kernel_sets import Found
from runner.record import spool
from runner.result import document
from runner.result.document import FILE_NAME, DocumentError


def below(where: str, path: Path) -> list[Found]:
    """Every result at or below ``path``, the newest first. ``where``: what the user named it with.

    Raises ``ConfigError`` for a path that does not exist or holds no result, and for a document that cannot be read.
    """
    if not os.path.exists(path):
        raise ConfigError(f"{where}: no such file; needed is a {FILE_NAME}, or a folder of results")
    files = spool.results(path) if path.is_dir() else [path]
    if not files:
        raise ConfigError(f"{where}: holds no {FILE_NAME}")
    try:
        found = [Found(str(file.parent), document.read(file)) for file in files]
    except DocumentError as error:
        raise ConfigError(f"{where}: {error}") from error
    return sorted(found, key=lambda one: one.result.started, reverse=True)
