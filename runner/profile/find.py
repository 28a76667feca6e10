"""Finds Nsight Systems, and says how to get it where there is none.

The CUDA toolkit's own ``nsys`` is a script that fails unless Nsight Systems is installed beside it, so a
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

VARIABLE = "RUNNER_NSYS"
"""Path of the ``nsys`` to use; nothing else is looked at when it is set."""
INSTALL_HINT = (
    "install the package nsight-systems-cli from NVIDIA's apt or yum repository, or Nsight Systems from "
    f"NVIDIA's developer download page, and put nsys on the PATH or set {VARIABLE} to it"
)
VERSION_S = 10.0
"""A tool that does not tell its version within this is taken for broken, once per process."""
_ROOTS = ("/usr/local", "/opt/nvidia", "/usr/lib")
_PATTERNS = (
    "cuda*/bin/nsys",
    "nsight-systems*/bin/nsys",
    "nsight-systems*/*/bin/nsys",
    "nsight-systems*/target-linux-*/nsys",
    "nsight-systems*/*/target-linux-*/nsys",
)


@dataclass(frozen=True)
class Nsys:
    path: Path
    version: str
    """``2023.4.4.54-234433681190v0``."""


def find() -> Nsys | str:
    """The first ``nsys`` that runs, or the reason why there is none, with the install hint."""
    chosen = os.environ.get(VARIABLE, "")
    if chosen:
        version, problem = _version(chosen)
        if version:
            return Nsys(Path(chosen), version)
        return f"{VARIABLE}={chosen} is not a working nsys ({problem}); {INSTALL_HINT}"
    broken = ""
    for path in _candidates():
        version, problem = _version(path)
        if version:
            return Nsys(Path(path), version)
        broken = broken or f"{path} does not run ({problem})"
    return f"Nsight Systems is not available: {broken or 'no nsys was found'}; {INSTALL_HINT}"


def _candidates() -> Iterator[str]:
    on_path = shutil.which("nsys")
    if on_path:
        yield on_path
    for variable in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"):
        if os.environ.get(variable):
            yield str(Path(os.environ[variable]) / "bin" / "nsys")
    for root in _ROOTS:
        for pattern in _PATTERNS:
            # The newest first: folder names end in the version.
            yield from sorted((str(path) for path in Path(root).glob(pattern)), reverse=True)


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
    found = re.search(r"version (\d[\w.\-]*)", done.stdout)
    if done.returncode == 0 and found:
        return found.group(1), ""
    lines = (done.stdout + done.stderr).strip().splitlines()
    return "", lines[-1] if lines else f"exit code {done.returncode}"
