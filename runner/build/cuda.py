"""nvcc: where it is, which version, its command line, and what its output says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from runner.build.model import BuildRequest, CompilerMissing, KernelResources
from runner.paths import cuda_src_dir

DEFAULT_ROOT = Path("/usr/local/cuda")
ENVIRONMENT = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN")
"""Variables that change what nvcc does; part of the cache key."""

_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_PROPERTIES = re.compile(r"Function properties for (\S+)")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_EXPANDED = re.compile(r'[$`"\\]')
_ERROR = re.compile(r"\berror\b|\bfatal\b", re.IGNORECASE)


def compiler() -> str:
    """nvcc of ``CUDA_HOME``, ``CUDA_ROOT``, the PATH, ``/usr/local/cuda``. Raises ``CompilerMissing``."""
    for variable in ("CUDA_HOME", "CUDA_ROOT"):
        if root := os.environ.get(variable):
            candidate = Path(root) / "bin" / "nvcc"
            if candidate.is_file():
                return str(candidate)
    if on_path := shutil.which("nvcc"):
        return on_path
    candidate = DEFAULT_ROOT / "bin" / "nvcc"
    if candidate.is_file():
        return str(candidate)
    raise CompilerMissing(
        f"nvcc was not found (CUDA_HOME, CUDA_ROOT, PATH and {DEFAULT_ROOT} were searched)",
        advice="Install the CUDA toolkit (conda install -c nvidia cuda-nvcc, or the system's package) "
        "or set CUDA_HOME; without a GPU use gpu=host.",
    )


def command(request: BuildRequest, output: str, nvcc: str = "nvcc", include: str = "") -> list[str]:
    """The command line that compiles ``request`` to ``output``, a cubin; ``include`` stands for ``cuda_src``."""
    line = [nvcc, "-cubin", f"-arch={request.arch}", "--std=c++17", "-lineinfo", "-Xptxas", "-v"]
    line += ["-I", include or str(cuda_src_dir())]
    line += [f"-D{name}={value}" if value else f"-D{name}" for name, value in request.defines]
    if request.unit == "prepare":
        line.append("-fmad=false")
    return [*line, *request.flags, "-o", output, request.source]


def safe_command(line: list[str], request: BuildRequest, place: Path, output: Path) -> list[str]:
    """``line``, or one that means the same when run in ``place``, without characters a shell would expand.

    nvcc hands its arguments to a shell in double quotes, so that a folder named ``$HOME`` would become another one.
    """
    if not _EXPANDED.search("".join(line)):
        return line
    source = Path(request.source)
    (place / "source").symlink_to(source.parent)
    (place / "include").symlink_to(cuda_src_dir())
    return command(replace(request, source=f"source/{source.name}"), output.name, line[0], "include")


def versions(nvcc: str) -> tuple[str, ...]:
    """What identifies the compilers: nvcc's version text and that of the host compiler it calls."""
    host = os.environ.get("NVCC_CCBIN") or shutil.which("g++") or ""
    if host and Path(host).is_dir():
        host = str(Path(host) / "g++")
    return (_version(nvcc), _version(host) if host else "")


@lru_cache(maxsize=32)
def _version(program: str) -> str:
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError as error:
        return f"{program}: {error.strerror}"  # nvcc itself will say what is wrong with its host compiler
    return done.stdout


def resources(log: str) -> dict[str, KernelResources]:
    """Registers, shared memory and spills of each entry point, from what ``-Xptxas -v`` printed."""
    found: dict[str, KernelResources] = {}
    entry = described = ""
    stack = (0, 0, 0)
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            entry, stack = match[1], (0, 0, 0)
        elif match := _PROPERTIES.search(line):
            described = match[1]
        elif match := _STACK.search(line):
            if described == entry:  # functions that were not inlined are described in between
                stack = (int(match[1]), int(match[2]), int(match[3]))
        elif entry and (match := _USED.search(line)):
            shared = _SHARED.search(line)
            found[entry] = KernelResources(
                registers=int(match[1]),
                shared_bytes=int(shared[1]) if shared else 0,
                stack_bytes=stack[0],
                spill_stores=stack[1],
                spill_loads=stack[2],
            )
            entry = ""
    return found


def error_lines(log: str, limit: int = 5) -> tuple[str, ...]:
    """The compiler's own first error lines; the end of its output when none looks like one."""
    lines = [line.rstrip() for line in log.splitlines() if line.strip()]
    return tuple([line for line in lines if _ERROR.search(line)][:limit] or lines[-limit:])


def advice(log: str, request: BuildRequest) -> str:
    """What the user can do about a failed compilation."""
    if "Unsupported gpu architecture" in log or "is not defined for option 'gpu-architecture'" in log:
        return f"This nvcc does not know {request.arch}: install a newer CUDA toolkit, or check gpu.arch."
    if "No space left on device" in log:
        return "Free some space, or set RUNNER_CACHE and TMPDIR to folders that have some."
    return "Fix the source; run the command above for every message."
