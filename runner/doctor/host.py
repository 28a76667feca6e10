"""What every experiment needs, GPU or not: a C++ compiler that works, folders that can be written, space in them."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from runner.build import host
from runner.build.cache import cache_dir
from runner.build.model import CompilerMissing
from runner.doctor.model import Answer, Probe, broken, missing, ok, run

SOURCE = 'extern "C" __global__ void probe(float *out) { out[threadIdx.x] = 1.0f; }\n'
"""A kernel; compiled for the CPU and by nvcc."""
ENOUGH_BYTES = 1 << 30
"""Of free space: compiled kernels take some megabytes, a profiler's reports hundreds."""
_LOAD = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
_COMPILE_S = 60.0
_FULL = "a kernel cannot be compiled: no space left for temporary files"


def probes() -> list[Probe]:
    return [
        Probe("C++ compiler", "runs kernels on the CPU (gpu=host)", compiler, needed=True, limit_s=2 * _COMPILE_S),
        Probe("address sanitizer", "sanitize=true; profiler=memcheck on the CPU", sanitizer, limit_s=2 * _COMPILE_S),
        Probe("compile cache", "keeps compiled kernels", lambda: _writable([cache_dir()], "RUNNER_CACHE"), needed=True),
        Probe("output folders", "keep results", outputs, needed=True),
        Probe("free space", "for results, reports and temporary files", space),
    ]


def compiler() -> Answer:
    """A kernel is compiled and loaded."""
    try:
        chosen = host.compiler()
        problem = _build(chosen, sanitize=False)
    except CompilerMissing as error:
        return missing(error.message, error.advice)
    named = f"{chosen.path}: {chosen.version}"
    if problem == _FULL:
        return broken(problem, "free some space there, or set TMPDIR to another folder")
    if problem:
        return broken(f"{named} does not compile a kernel: {problem}", "install g++ 9 or newer, or set CXX")
    return ok(named)


def sanitizer() -> Answer:
    try:
        problem = _build(host.compiler(), sanitize=True)
    except CompilerMissing as error:
        return missing(error.message, error.advice)
    if problem == _FULL:
        return broken(problem, "free some space there, or set TMPDIR to another folder")
    if problem:
        return broken(problem, "install g++ with its sanitizer's library (libasan), or set CXX to such a g++")
    return ok("works")


def _build(chosen: host.HostCompiler, sanitize: bool) -> str:
    """Compiles and loads a kernel as an experiment would; what went wrong, empty when nothing did."""
    environment = {**os.environ, **host.sanitizer_environment(chosen)} if sanitize else None
    with tempfile.TemporaryDirectory() as folder:
        source, unit, library = (Path(folder) / name for name in ("probe.cu", "wrapper.cpp", "probe.so"))
        source.write_text(SOURCE)
        unit.write_text(host.wrapper(source, ["probe"]))
        line = host.command(unit, library, unit="main", defines={}, sanitize=sanitize, with_compiler=chosen)
        said = run(line, _COMPILE_S)
        if said.code == 0:
            said = run([sys.executable, "-c", _LOAD, str(library)], _COMPILE_S, environment)
        if said.code != 0 and "No space left on device" in said.text:
            return _FULL
        return said.last if said.code != 0 else ""


def outputs() -> Answer:
    return _writable([Path("outputs"), Path("multirun")], "hydra.run.dir= and hydra.sweep.dir=")


def _writable(folders: list[Path], key: str) -> Answer:
    """A file is written into each folder, or into the nearest one that exists above it."""
    for folder in folders:
        place = _existing(folder)
        try:
            with tempfile.TemporaryFile(dir=place) as file:
                file.write(b"probe")
        except OSError as error:
            return broken(f"{place} cannot be written: {error.strerror}", f"check its owner and mode, or set {key}")
    return ok(", ".join(str(folder.absolute()) for folder in folders))


def space() -> Answer:
    places = dict.fromkeys(_existing(folder) for folder in (Path("."), cache_dir(), Path(tempfile.gettempdir())))
    free = {str(place): shutil.disk_usage(place).free for place in places}
    found = ", ".join(f"{place} {count / 1e9:.1f} GB" for place, count in free.items())
    if min(free.values()) < ENOUGH_BYTES:
        return broken(found, "free some space; RUNNER_CACHE and TMPDIR name other folders")
    return ok(found)


def _existing(folder: Path) -> Path:
    place = folder.expanduser().absolute()
    while not place.exists():
        place = place.parent
    return place
