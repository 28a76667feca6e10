"""From a plan to compiled programs: which units it needs, and building them in parallel."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner.build import cache, cuda, host
from runner.build.model import BuildRequest, CompileError, Program
from runner.build.sources import closure, entry_points
from runner.paths import cuda_src_dir
from runner.plan.model import COMPANION, Plan, Unit

FILLED = ("uniform", "integers", "constant")
"""Kinds of fill that the ``fill`` program writes; the others need no kernel."""


def requests(plan: Plan) -> dict[str, BuildRequest]:
    """What to compile for ``plan``, by module name: ``flush``, and ``main``, ``prepare``, ``fill`` as far as used; of
    what stands beside it the same under ``companion.…``.

    Raises ``CompileError`` when a source is missing or has no entry point.
    """
    # A workload class declares no launches and may take any function of the main unit, and of a companion's.
    wanted = _modules(plan, any(not variant.launches for variant in plan.variants))
    if plan.variants:
        wanted["flush"] = _request(plan, cuda_src_dir() / "common" / "flush.cu", "main", own=False)
    if plan.companion is not None:
        beside = replace(plan.companion, sanitize=plan.sanitize)
        wanted |= {f"{COMPANION}{name}": request for name, request in _modules(beside, True).items()}
    return wanted


def _modules(plan: Plan, any_function: bool) -> dict[str, BuildRequest]:
    """Of the family itself. ``any_function``: its main unit is needed whatever its launches name."""
    wanted: dict[str, BuildRequest] = {}
    launches = [launch for variant in plan.variants for launch in variant.launches]
    if plan.source and (any_function or any(launch.unit == "main" for launch in launches)):
        wanted["main"] = _request(plan, Path(plan.source), "main")
    if plan.source and (plan.prepare or any(launch.unit == "prepare" for launch in launches)):
        wanted["prepare"] = _request(plan, Path(plan.source), "prepare")
    if any(buffer.fill.kind in FILLED for buffer in plan.buffers):
        wanted["fill"] = _request(plan, cuda_src_dir() / "common" / "fill.cu", "prepare", own=False)
    return wanted


def _request(plan: Plan, source: Path, unit: Unit, own: bool = True) -> BuildRequest:
    """``own``: the family's own source, with its definitions and flags."""
    on_cuda = plan.target.backend == "cuda"
    return BuildRequest(
        source=str(source),
        backend=plan.target.backend,
        arch=plan.target.arch if on_cuda else "",
        unit=unit,
        defines=tuple(sorted(plan.defines.items())) if own else (),
        flags=plan.flags if own and unit == "main" else (),
        functions=entry_points(source),
        sanitize=plan.sanitize,
    )


def command_line(request: BuildRequest) -> list[str]:
    """How ``request`` would be compiled, with short names for compiler and output; runs nothing."""
    name = f"{Path(request.source).stem}.{request.unit}"
    if request.backend == "cuda":
        return cuda.command(request, f"{name}.cubin")
    return _host_command(request, f"{name}.cpp", f"{name}.so", host.HostCompiler("c++", ""))


def _host_command(request: BuildRequest, wrapper: str, output: str, chosen: host.HostCompiler) -> list[str]:
    return host.command(
        wrapper,
        output,
        unit=request.unit,
        defines=dict(request.defines),
        flags=request.flags,
        sanitize=request.sanitize,
        with_compiler=chosen,
    )


def build(requests: Iterable[BuildRequest], jobs: int | None = None) -> dict[BuildRequest, Program | CompileError]:
    """Compiles every request that is not in the cache, ``jobs`` at a time (one per core by default).

    A failure stands in the result in place of the program and never stops the others.
    """
    wanted = list(dict.fromkeys(requests))
    if not wanted:
        return {}
    with ThreadPoolExecutor(max_workers=min(len(wanted), jobs or os.cpu_count() or 1)) as pool:
        return dict(zip(wanted, pool.map(_outcome, wanted), strict=True))


def _outcome(request: BuildRequest) -> Program | CompileError:
    try:
        return build_one(request)
    except CompileError as error:
        return error


def build_one(request: BuildRequest) -> Program:
    """The program for ``request``, from the cache or compiled now. Raises ``CompileError``."""
    started = time.perf_counter()
    path = cache.program_path(program_key(request), ".cubin" if request.backend == "cuda" else ".so")
    record = cache.find(path)
    cached = record is not None
    if record is None:
        record = _compile(request, path)
    seconds = time.perf_counter() - started
    return Program(request, path, record.command, record.log, cached, seconds, record.resources)


def program_key(request: BuildRequest) -> str:
    """The cache key: everything that can change the program, and the places of its files, which debug information and
    messages hold. Raises ``CompileError``."""
    parts = _parts(request)
    parts["files"] = sorted((str(path), digest) for path, digest in _files(request).items())
    if request.backend == "cuda":
        parts["command"] = cuda.command(request, "", cuda.compiler())
    else:
        parts["command"] = _host_command(request, "", "", host.compiler())
        parts["wrapper"] = host.wrapper(request.source, request.functions)
    return cache.key(parts)


def identity(request: BuildRequest) -> str:
    """The same wherever the files lie: their content, the flags, the compilers. Raises ``CompileError``."""
    return cache.key({**_parts(request), "files": sorted(_files(request).values())})


def _files(request: BuildRequest) -> dict[Path, str]:
    return closure(Path(request.source), (cuda_src_dir(),))


def _parts(request: BuildRequest) -> dict[str, Any]:
    """What makes a program, without its source."""
    parts: dict[str, Any] = {
        "backend": request.backend,
        "arch": request.arch,
        "unit": request.unit,
        "defines": request.defines,
        "flags": request.flags,
        "functions": request.functions,
        "sanitize": request.sanitize,
    }
    if request.backend == "cuda":
        parts["compilers"] = cuda.versions(cuda.compiler())
        parts["environment"] = [os.environ.get(name, "") for name in cuda.ENVIRONMENT]
    else:
        parts["compilers"] = [host.compiler().version]
        parts["cpu"] = host.cpu_key()
    return parts


def _compile(request: BuildRequest, path: Path) -> cache.Record:
    with cache.workspace(path) as place:
        output = place / path.name
        if request.backend == "cuda":
            nvcc = cuda.compiler()
            shown = cuda.command(request, str(path), nvcc)
            line = cuda.safe_command(cuda.command(request, str(output), nvcc), request, place, output)
        else:
            chosen = host.compiler()
            wrapper = place / "wrapper.cpp"
            wrapper.write_text(host.wrapper(request.source, request.functions))
            # Without the wrapper, which is gone by the time somebody copies the line.
            shown = _host_command(request, request.source, str(path), chosen)
            line = _host_command(request, str(wrapper), str(output), chosen)
        log = _run(line, place, request, shown)
        resources = cuda.resources(log) if request.backend == "cuda" else {}
        record = cache.Record(tuple(shown), log, request.functions, resources)
        cache.store(path, output, record)
    return record


def _run(line: list[str], place: Path, request: BuildRequest, shown: list[str]) -> str:
    """Runs the compiler in ``place`` and returns what it printed.

    Raises ``CompileError`` with ``shown``, the command as a user would write it.
    """
    try:
        done = subprocess.run(line, capture_output=True, text=True, errors="replace", cwd=place, check=False)
    except OSError as error:
        raise CompileError(f"cannot run {line[0]}: {error.strerror}", shown) from error
    log = done.stdout + done.stderr
    if done.returncode != 0:
        target = request.arch or "the CPU"
        raise CompileError(
            f"{request.source} does not compile for {target} (unit {request.unit}, exit {done.returncode})",
            shown,
            cuda.error_lines(log),
            cuda.advice(log, request),
        )
    return log
