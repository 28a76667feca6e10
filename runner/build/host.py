"""Compiling a ``.cu`` file for the CPU: the compiler, its command line, and the address sanitizer's set-up.

The source itself is compiled unchanged. ``cuda_src/host/cuda.h`` goes before it and supplies CUDA's language;
``wrapper`` is the translation unit around it, which adds the table of kernels that the backend loads.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from runner.build.model import CompileError, CompilerMissing
from runner.paths import cuda_src_dir
from runner.plan.model import Unit

CANDIDATES = ("g++", "c++", "clang++")
_PASSED = ("-D", "-U", "-I")
"""Options nvcc and C++ compilers share; everything else in a family's ``flags`` is meant for nvcc."""
_OFF = ("-fmad=false", "--fmad=false")
SANITIZER_EXIT = 86
"""Exit code of a process that the sanitizer ends."""
_GCC_ADVICE = "install it with: sudo apt-get install g++, and leave CXX unset or set it to g++"


@dataclass(frozen=True)
class HostCompiler:
    """A C++ compiler of this machine."""

    path: str
    version: str
    """First line of ``--version``."""

    @property
    def is_clang(self) -> bool:
        return "clang" in self.version


def compiler() -> HostCompiler:
    """``$CXX``, else the first of g++, c++ and clang++. Raises ``CompilerMissing`` with the install line."""
    chosen = os.environ.get("CXX", "")
    found = shutil.which(chosen) if chosen else next(filter(None, map(shutil.which, CANDIDATES)), None)
    if found is None:
        tried = f"CXX={chosen}" if chosen else ", ".join(CANDIDATES)
        raise CompilerMissing(f"no C++ compiler found (tried {tried}); the host backend needs one", advice=_install())
    return HostCompiler(found, _version(found))


def _install() -> str:
    if platform.system() == "Darwin":
        return "install it with: xcode-select --install"
    return "install it with: sudo apt-get install g++ (Debian, Ubuntu) or sudo dnf install gcc-c++ (Fedora, RHEL)"


@lru_cache(maxsize=8)
def _version(path: str) -> str:
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError as error:
        raise CompilerMissing(f"cannot run {path}: {error.strerror}", advice=_install()) from error
    if done.returncode != 0 or not done.stdout:
        raise CompilerMissing(f"{path} --version failed: {done.stderr.strip()}", advice=_install())
    return done.stdout.splitlines()[0]


@lru_cache(maxsize=1)
def cpu_key() -> str:
    """What ``-march=native`` depends on: the CPU's model and its instruction sets. Part of the cache key."""
    model, flags = platform.processor() or platform.machine(), ""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        fields = {
            key.strip(): value.strip()
            for key, _, value in (line.partition(":") for line in info.read_text().split("\n\n")[0].splitlines())
        }
        model = fields.get("model name", model)
        flags = fields.get("flags", fields.get("Features", ""))
    elif platform.system() == "Darwin":
        asked = ["sysctl", "-n", "machdep.cpu.brand_string"]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
        model = done.stdout.strip() or model
    return f"{platform.machine()} {model} {hashlib.sha256(flags.encode()).hexdigest()[:16]}"


def headers_key() -> str:
    """Changes with any file of ``cuda_src/host``: libraries that differ in it never share a thread pool."""
    folder = cuda_src_dir() / "host"
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.h")):
        digest.update(f"{path.relative_to(folder)}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def wrapper(source: Path | str, functions: Sequence[str]) -> str:
    """The translation unit to compile: ``source`` and the table of its entry points ``functions``.

    Raises ``CompileError`` when the path cannot be written in an ``#include``.
    """
    path = str(Path(source).absolute())
    if '"' in path or "\n" in path:
        raise CompileError(f"{path!r}: a kernel source's path may hold neither quotes nor newlines")
    kernels = " ".join(f"HOST_KERNEL({name})" for name in functions)
    return (
        f'#include "{path}"\n'
        f'#define HOST_ABI "{headers_key()}"\n'
        f"#define HOST_KERNELS {kernels}\n"
        f'#include "{cuda_src_dir() / "host" / "unit.h"}"\n'
    )


def command(
    source: Path | str,
    out: Path | str,
    *,
    unit: Unit,
    defines: Mapping[str, str],
    flags: Sequence[str] = (),
    sanitize: bool = False,
    include_dirs: Sequence[Path | str] = (),
    with_compiler: HostCompiler | None = None,
) -> list[str]:
    """The compiler's command line: ``source`` is the file that holds ``wrapper``'s text, ``out`` a shared library.

    ``flags`` are the family's, written for nvcc: definitions and include folders are taken, ``-fmad=false`` is
    translated, the rest is dropped. Raises ``CompilerMissing``.
    """
    chosen = with_compiler or compiler()
    if sanitize:
        _refuse_clang(chosen)
    contract = "off" if unit == "prepare" or any(flag in _OFF for flag in flags) else "fast"
    x86 = platform.machine() in ("x86_64", "AMD64", "i686")
    line = [chosen.path, "-x", "c++", "-std=c++17", "-shared", "-fPIC", "-pthread"]
    line += ["-march=native" if x86 else "-mcpu=native", f"-ffp-contract={contract}"]
    # Value-preserving; CUDA code casts between pointer types freely.
    line += ["-fno-strict-aliasing", "-fno-math-errno", "-fno-trapping-math", "-fvisibility=hidden"]
    line += ["-fno-stack-protector", "-Wno-attributes", "-Wno-unknown-pragmas"]
    if x86:
        line.append("-fcf-protection=none")
    if platform.system() == "Darwin":
        line += ["-D_XOPEN_SOURCE=600", "-D_DARWIN_C_SOURCE", "-Wno-deprecated-declarations"]
    line += ["-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address"] if sanitize else ["-O3"]
    folder = cuda_src_dir()
    line += [f"-I{folder / 'host' / 'include'}", f"-I{folder}", *(f"-I{place}" for place in include_dirs)]
    line += [f"-D{name}={value}" if value != "" else f"-D{name}" for name, value in defines.items()]
    line += _shared_flags(flags)
    return [*line, "-include", str(folder / "host" / "cuda.h"), str(source), "-o", str(out)]


def _shared_flags(flags: Sequence[str]) -> list[str]:
    """The options among nvcc's ``flags`` that mean the same to a C++ compiler."""
    kept: list[str] = []
    waiting = ""
    for flag in flags:
        if waiting:
            kept.append(waiting + flag)
            waiting = ""
        elif flag in _PASSED:
            waiting = flag
        elif flag.startswith(_PASSED):
            kept.append(flag)
    return kept


def sanitizer_environment(with_compiler: HostCompiler | None = None) -> dict[str, str]:
    """Environment of a process that loads sanitized programs, laid over its own.

    The report goes to the process's standard error, which ends with exit code 86; ``runner.build.sanitizer.report``
    reads it. Raises ``CompilerMissing`` when the compiler has no address sanitizer.
    """
    chosen = with_compiler or compiler()
    _refuse_clang(chosen)
    # With libstdc++ loaded after it, the sanitizer finds no real exception functions and stops at the first throw.
    preload = [_library(chosen, name) for name in ("libasan.so", "libstdc++.so.6")]
    options = (
        f"detect_leaks=0:exitcode={SANITIZER_EXIT}:color=never:allocator_may_return_null=1:abort_on_error=0:"
        "handle_abort=0:detect_odr_violation=0"
    )
    return {"LD_PRELOAD": " ".join(preload), "ASAN_OPTIONS": options}


def _refuse_clang(chosen: HostCompiler) -> None:
    """Clang's sanitizer starts a symbolizer with itself preloaded, which may hang and keep our pipes open."""
    if chosen.is_clang:
        raise CompilerMissing(f"sanitize=true needs g++, and the compiler is {chosen.path}", advice=_GCC_ADVICE)


def _library(chosen: HostCompiler, name: str) -> str:
    done = subprocess.run([chosen.path, f"-print-file-name={name}"], capture_output=True, text=True, check=False)
    path = Path(done.stdout.strip())
    if not path.is_absolute() or not path.exists():
        raise CompilerMissing(
            f"{chosen.path} has no {name}: sanitize=true needs the address sanitizer",
            advice=_GCC_ADVICE,
        )
    return str(path.resolve())
