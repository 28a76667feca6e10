"""Finds a command line tool of NVIDIA's, or says how to get it.

The CUDA toolkit's own ``nsys`` and ``ncu`` may be scripts that fail unless the tool is installed beside them, so a
candidate counts only once it has told its version.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

VERSION_S = 10.0
"""A tool that does not tell its version within this is taken for broken, once per process."""
_HOMES = ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT")
_ROOTS = ("/usr/local", "/opt/nvidia", "/usr/lib")


@dataclass(frozen=True)
class Found:
    path: Path
    version: str
    """``2025.3.1.0``."""


@dataclass(frozen=True)
class Missing:
    """Why a tool cannot be used; as text with the hint."""

    what: str
    hint: str
    """How to get it."""
    broken: bool
    """One is here and does not run."""

    def __str__(self) -> str:
        return f"{self.what}; {self.hint}"


@dataclass(frozen=True)
class Tool:
    """A tool to look for; a candidate counts once it has told its version."""

    name: str
    """Of the executable."""
    title: str
    """What people call it."""
    variable: str
    """Environment variable with its path; nothing else is looked at when it is set."""
    places: tuple[str, ...]
    """Patterns below ``/usr/local``, ``/opt/nvidia`` and ``/usr/lib``."""
    hint: str
    """How to get it."""

    def find(self) -> Found | Missing:
        """The first that runs, or the reason why there is none."""
        chosen = os.environ.get(self.variable, "")
        if chosen:
            version, problem = _version(chosen)
            if version:
                return Found(Path(chosen), version)
            return Missing(f"{self.variable}={chosen} is not a working {self.name} ({problem})", self.hint, broken=True)
        broken = ""
        for path in self._candidates():
            version, problem = _version(path)
            if version:
                return Found(Path(path), version)
            broken = broken or f"{path} does not run ({problem})"
        what = f"{self.title} is not available: {broken or f'no {self.name} was found'}"
        return Missing(what, self.hint, bool(broken))

    def _candidates(self) -> Iterator[str]:
        on_path = shutil.which(self.name)
        if on_path:
            yield on_path
        for variable in _HOMES:
            if os.environ.get(variable):
                yield str(Path(os.environ[variable]) / "bin" / self.name)
        for root in _ROOTS:
            for pattern in self.places:
                # The newest first: folder names end in the version.
                yield from sorted((str(path) for path in Path(root).glob(pattern)), reverse=True)


def required(found: Found | Missing) -> Found:
    """Raises ``RuntimeError`` for a tool that is missing."""
    if isinstance(found, Missing):
        raise RuntimeError(str(found))
    return found


@lru_cache(maxsize=64)
def _version(path: str) -> tuple[str, str]:
    """(version, "") or ("", what went wrong)."""
    if not Path(path).is_file():
        return "", "no such file"
    try:
        done = subprocess.run(
            [path, "--version"],
            capture_output=True,
            text=True,
            timeout=VERSION_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return "", f"it did not tell its version within {VERSION_S:g} s"
    except OSError as error:
        return "", str(error)
    found = re.search(r"version (\d[\w.\-]*)", done.stdout, re.IGNORECASE)
    if done.returncode == 0 and found:
        return found.group(1), ""
    lines = (done.stdout + done.stderr).strip().splitlines()
    return "", lines[-1] if lines else f"exit code {done.returncode}"
