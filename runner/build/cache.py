"""The compile cache: programs by the hash of everything that went into them.

A program is two files, ``<key>.cubin`` (or ``.so``) and ``<key>.json`` beside it. Both are written to a
temporary folder in the cache and renamed, the program last: whoever sees the program sees all of it, and two
processes that build the same thing at once both succeed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from runner.build.model import CacheError, KernelResources

SCHEMA = 1
"""Version of the cache's files; part of every key."""


@dataclass(frozen=True)
class Record:
    """What is kept beside a program."""

    command: tuple[str, ...]
    log: str
    functions: tuple[str, ...]
    resources: dict[str, KernelResources] = field(default_factory=dict)


def cache_dir() -> Path:
    """``$RUNNER_CACHE``, else ``$XDG_CACHE_HOME/gpu-runner``, else ``~/.cache/gpu-runner``."""
    if chosen := os.environ.get("RUNNER_CACHE"):
        return Path(chosen).expanduser().absolute()
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base).expanduser().absolute() / "gpu-runner"
    return Path.home() / ".cache" / "gpu-runner"


def prepare() -> None:
    """Makes the folder of the cache; one that is there may be read-only, and serve what it holds. Raises
    ``CacheError``."""
    place = cache_dir()
    with _one_error(place):
        place.mkdir(parents=True, exist_ok=True)


def key(parts: dict[str, Any]) -> str:
    """SHA-256 over ``parts``, which JSON can write; the order of keys does not matter."""
    text = json.dumps({"schema": SCHEMA, **parts}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def program_path(name: str, suffix: str) -> Path:
    """Where the program with key ``name`` lies or will lie."""
    return cache_dir() / "programs" / name[:2] / f"{name}{suffix}"


def find(path: Path) -> Record | None:
    """The record of the program at ``path``; None when it is not there in full."""
    if not path.is_file():
        return None
    try:
        stored = json.loads(path.with_suffix(".json").read_text())
        return Record(
            command=tuple(stored["command"]),
            log=stored["log"],
            functions=tuple(stored["functions"]),
            resources={name: KernelResources(**one) for name, one in stored["resources"].items()},
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None  # damaged by hand or by another version: compiled again and replaced


@contextmanager
def workspace(path: Path) -> Iterator[Path]:
    """A temporary folder on the file system of ``path``, removed afterwards. Raises ``CacheError``, also for what
    cannot be written into it."""
    with _one_error(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        place = Path(tempfile.mkdtemp(prefix=".build-", dir=path.parent))
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)


def store(path: Path, compiled: Path, record: Record) -> None:
    """Moves ``compiled``, a file in ``workspace(path)``, to ``path``. Raises ``CacheError``."""
    with _one_error(path.parent):
        note = compiled.with_suffix(".json")
        note.write_text(json.dumps(asdict(record), indent=1))
        os.replace(note, path.with_suffix(".json"))
        os.replace(compiled, path)


@contextmanager
def _one_error(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CacheError(
            f"cannot write the compile cache {place}: {error.strerror or error}",
            advice="Free some space there, or set RUNNER_CACHE to a folder that can be written.",
        ) from error
