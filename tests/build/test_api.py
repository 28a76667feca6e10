"""From a plan to programs with a pretended nvcc: what is compiled, what is cached, and how failures are told."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from runner.build import api, cuda
from runner.build.model import BuildRequest, CacheError, CompileError, CompilerMissing, KernelResources, Program
from runner.paths import cuda_src_dir
from runner.plan.model import Buffer, Fill, Launch, Plan, Target, Variant
from tests.plan.plans import plan_with

NVCC = r"""#!/bin/sh
here=$(dirname "$0")
if [ "$1" = --version ]; then cat "$here/version"; exit 0; fi
echo run >> "$here/runs"
for last; do :; done
if grep -q BROKEN "$last"; then
  echo "$last(2): error: identifier \"BROKEN\" is undefined" >&2
  echo "1 error detected in the compilation of \"$last\"." >&2
  exit 2
fi
while [ "$1" != -o ]; do shift; done
sleep 0.05
echo binary > "$2"
echo "ptxas info    : Compiling entry function 'scale' for 'sm_90a'" >&2
echo "ptxas info    : Used 12 registers, used 0 barriers" >&2
"""

SOURCE = '#include "helper.cuh"\nextern "C" __global__ void scale(float* x) { x[0] *= FACTOR; }\n'


@pytest.fixture
def nvcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_cache: Path) -> Path:
    """Folder of a pretended nvcc, which notes its runs in the file ``runs`` there."""
    program = tmp_path / "toolkit" / "bin" / "nvcc"
    program.parent.mkdir(parents=True)
    program.write_text(NVCC)
    program.chmod(0o755)
    (program.parent / "version").write_text("release 13.0")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "toolkit"))
    for name in cuda.ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    cuda._version.cache_clear()
    return program.parent


@pytest.fixture
def request_(weird_path: Path) -> BuildRequest:
    (weird_path / "helper.cuh").write_text("#define FACTOR 2\n")
    source = weird_path / "scale.cu"
    source.write_text(SOURCE)
    return BuildRequest(str(source), "cuda", "sm_90a", "main", functions=("scale",))


def runs(nvcc: Path) -> int:
    log = nvcc / "runs"
    return len(log.read_text().splitlines()) if log.exists() else 0


def built(request: BuildRequest) -> Program:
    outcome = api.build([request])[request]
    assert isinstance(outcome, Program), outcome
    return outcome


def plan_of(source: Path, backend: str = "cuda") -> Plan:
    launch = Launch("scale", (1, 1, 1), (32, 1, 1), ())
    variant = Variant("fp32", (launch,), (), 0, 0, 0, "float32")
    return plan_with(
        kernel="scale",
        target=Target("t", backend="cuda" if backend == "cuda" else "host", arch="sm_90a"),
        source=str(source),
        defines={"N": "2", "BLOCK": "256"},
        flags=("--use_fast_math",),
        buffers=(Buffer("x", (4,), "float32"),),
        variants=(variant,),
        baseline="fp32",
    )


def test_only_the_units_in_use_are_requested(request_: BuildRequest) -> None:
    plan = plan_of(Path(request_.source))
    wanted = api.requests(plan)
    assert wanted.pop("flush").source == str(cuda_src_dir() / "common" / "flush.cu")
    assert wanted == {"main": replace(request_, defines=(("BLOCK", "256"), ("N", "2")), flags=("--use_fast_math",))}
    full = replace(
        plan,
        prepare=(Launch("scale", (1, 1, 1), (1, 1, 1), (), unit="prepare"),),
        buffers=(Buffer("x", (4,), "float32", Fill("uniform")),),
    )
    wanted = api.requests(full)
    assert list(wanted) == ["main", "prepare", "fill", "flush"]
    assert (wanted["prepare"].unit, wanted["prepare"].flags) == ("prepare", ())
    assert wanted["prepare"].defines == wanted["main"].defines
    fill = wanted["fill"]
    assert (fill.unit, fill.defines, fill.flags) == ("prepare", (), ())
    assert fill.source == str(cuda_src_dir() / "common" / "fill.cu")
    assert "fill_uniform_float32" in fill.functions


def test_a_workload_class_gets_every_function_of_the_main_unit(request_: BuildRequest) -> None:
    plan = plan_of(Path(request_.source))
    own = replace(plan, variants=(replace(plan.variants[0], launches=()),))
    assert api.requests(own)["main"].functions == ("scale",)


def test_kinds_without_a_source_need_nothing(request_: BuildRequest) -> None:
    plan = replace(plan_of(Path(request_.source)), source="", variants=(), buffers=())
    assert api.requests(plan) == {}


def test_on_host_there_is_no_architecture(request_: BuildRequest) -> None:
    request = api.requests(plan_of(Path(request_.source), "host"))["main"]
    assert (request.backend, request.arch) == ("host", "")
    line = api.command_line(request)
    assert line[0] == "c++" and "-DBLOCK=256" in line and "--use_fast_math" not in line


def test_a_dry_run_shows_the_command_without_a_compiler(
    request_: BuildRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "compiler", lambda: pytest.fail("no compiler is needed"))
    line = api.command_line(request_)
    assert (line[0], line[2], line[-2:]) == ("nvcc", "-arch=sm_90a", ["scale.main.cubin", request_.source])


def test_a_program_is_compiled_once(nvcc: Path, request_: BuildRequest, fresh_cache: Path) -> None:
    first, second = built(request_), built(request_)
    assert (first.cached, second.cached, runs(nvcc)) == (False, True, 1)
    assert first.path == second.path and first.path.is_relative_to(fresh_cache)
    assert first.path.read_text() == "binary\n"
    assert second.resources == {"scale": KernelResources(12)}
    assert second.command == first.command and second.log == first.log
    assert json.loads(first.path.with_suffix(".json").read_text())["functions"] == ["scale"]
    assert not list(fresh_cache.rglob(".build-*"))


def test_the_same_request_twice_is_built_once(nvcc: Path, request_: BuildRequest) -> None:
    assert len(api.build([request_, request_])) == 1
    assert runs(nvcc) == 1


def test_nothing_to_build_is_fine() -> None:
    assert api.build([]) == {}


def edit_include(request: BuildRequest, nvcc: Path) -> BuildRequest:
    helper = Path(request.source).parent / "helper.cuh"
    helper.write_text("#define FACTOR 3\n")
    os.utime(helper, ns=(1, 1))
    return request


def newer_compiler(request: BuildRequest, nvcc: Path) -> BuildRequest:
    (nvcc / "version").write_text("release 13.1")
    cuda._version.cache_clear()
    return request


def environment_flags(request: BuildRequest, nvcc: Path) -> BuildRequest:
    os.environ["NVCC_APPEND_FLAGS"] = "-O1"  # the test's monkeypatch puts it back
    return request


@pytest.mark.parametrize(
    "change",
    [
        edit_include,
        newer_compiler,
        environment_flags,
        lambda request, nvcc: replace(request, flags=("-O1",)),
        lambda request, nvcc: replace(request, defines=(("N", "1"),)),
        lambda request, nvcc: replace(request, arch="sm_80"),
        lambda request, nvcc: replace(request, unit="prepare"),
        lambda request, nvcc: replace(request, sanitize=True),
    ],
)
def test_whatever_changes_the_program_changes_its_key(
    nvcc: Path,
    request_: BuildRequest,
    change: Callable[[BuildRequest, Path], BuildRequest],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "")
    before = api.program_key(request_)
    assert api.program_key(request_) == before
    assert api.program_key(change(request_, nvcc)) != before


def test_another_file_in_the_folder_changes_nothing(nvcc: Path, request_: BuildRequest) -> None:
    before = api.program_key(request_)
    (Path(request_.source).parent / "other.cuh").write_text("int x;")
    assert api.program_key(request_) == before


def test_a_failure_stands_beside_what_was_built(
    nvcc: Path, request_: BuildRequest, fresh_cache: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.cu"
    bad.write_text('extern "C" __global__ void f() {\n BROKEN; }\n')
    failing = BuildRequest(str(bad), "cuda", "sm_90a", "main", functions=("f",))
    outcome = api.build([failing, request_], jobs=1)
    assert isinstance(outcome[request_], Program)
    error = outcome[failing]
    assert isinstance(error, CompileError)
    assert error.errors[0] == f'{bad}(2): error: identifier "BROKEN" is undefined'
    text = str(error)
    assert text.startswith(f"{bad} does not compile for sm_90a (unit main, exit 2)\n  {bad}(2): error:")
    assert "\n  command: " in text and text.endswith("Fix the source; run the command above for every message.")
    assert not list(fresh_cache.rglob(".build-*"))


def test_a_missing_compiler_is_reported_per_request(
    nvcc: Path, request_: BuildRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_HOME")
    monkeypatch.delenv("CUDA_ROOT", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(cuda, "DEFAULT_ROOT", nvcc / "none")
    assert isinstance(api.build([request_])[request_], CompilerMissing)


def test_a_cache_that_cannot_be_written_is_one_clear_error(
    nvcc: Path, request_: BuildRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RUNNER_CACHE", str(tmp_path / "file" / "cache"))
    error = api.build([request_])[request_]
    assert isinstance(error, CacheError)
    assert "cannot write the compile cache" in str(error) and "set RUNNER_CACHE" in str(error)


def test_a_full_disk_is_one_clear_error(nvcc: Path, request_: BuildRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: object, target: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    error = api.build([request_])[request_]
    assert isinstance(error, CacheError) and "No space left on device" in str(error)


def test_a_disk_that_fills_before_the_compiler_runs_is_one_clear_error(
    fresh_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, *text: object, **how: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    source = tmp_path / "k.cu"
    source.write_text('extern "C" __global__ void k() {}\n')
    monkeypatch.setattr(Path, "write_text", full)
    request = BuildRequest(str(source), "host", "", "main", functions=("k",))
    error = api.build([request])[request]
    assert isinstance(error, CacheError) and "No space left on device" in str(error)
    assert not list(fresh_cache.rglob(".build-*"))


def test_the_command_of_a_failed_compilation_can_be_run_again(fresh_cache: Path, tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text('extern "C" __global__ void k() { nonsense; }\n')
    request = BuildRequest(str(source), "host", "", "main", functions=("k",))
    error = api.build([request])[request]
    assert isinstance(error, CompileError)
    again = subprocess.run([*error.command, "-o", os.devnull], capture_output=True, text=True, check=False)
    assert again.returncode != 0 and f"{source}:1" in again.stderr and "nonsense" in again.stderr


def test_a_damaged_record_is_compiled_again(nvcc: Path, request_: BuildRequest) -> None:
    path = built(request_).path
    path.with_suffix(".json").write_text('{"command": ')
    assert not built(request_).cached
    assert built(request_).cached and runs(nvcc) == 2


def test_two_builds_of_the_same_program_at_once_both_succeed(nvcc: Path, request_: BuildRequest) -> None:
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(built, [request_, request_]))
    assert both[0].path == both[1].path and both[0].path.read_text() == "binary\n"


def test_two_processes_building_the_same_program_both_succeed(
    nvcc: Path, request_: BuildRequest, repository: Path
) -> None:
    code = (
        "import sys; from runner.build import api; from runner.build.model import *\n"
        "r = BuildRequest(sys.argv[1], 'cuda', 'sm_90a', 'main', functions=('scale',))\n"
        "print(api.build([r])[r].path.read_text())"
    )
    line = [sys.executable, "-c", code, request_.source]
    started = [subprocess.Popen(line, stdout=subprocess.PIPE, text=True, cwd=repository) for _ in range(2)]
    assert [one.communicate(timeout=120)[0].strip() for one in started] == ["binary", "binary"]


def test_a_hit_costs_less_than_two_milliseconds(nvcc: Path, request_: BuildRequest) -> None:
    built(request_)
    best = float("inf")
    for _ in range(30):
        begin = time.perf_counter()
        assert api.build_one(request_).cached
        best = min(best, time.perf_counter() - begin)
    assert best < 2e-3


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on the PATH")
def test_a_real_kernel_compiles_and_tells_its_resources(request_: BuildRequest, fresh_cache: Path) -> None:
    program = built(request_)
    assert program.path.read_bytes()[:4] == b"\x7fELF"
    assert program.resources["scale"].registers > 0
    assert program.resources["scale"].spill_stores == 0


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on the PATH")
def test_a_real_mistake_and_an_unknown_architecture_are_explained(request_: BuildRequest, fresh_cache: Path) -> None:
    Path(request_.source).write_text('extern "C" __global__ void scale(float* x) { x[0] = ; }\n')
    unknown = replace(request_, arch="sm_999")
    outcome = api.build([request_, unknown])
    mistake, refused = outcome[request_], outcome[unknown]
    assert isinstance(mistake, CompileError) and "error: expected an expression" in mistake.errors[0]
    assert isinstance(refused, CompileError) and "does not know sm_999" in str(refused)


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not on the PATH")
def test_the_same_source_is_built_for_the_cpu(fresh_cache: Path, tmp_path: Path) -> None:
    source = tmp_path / "scale.cu"
    source.write_text('extern "C" __global__ void scale(float* x) { x[blockIdx.x] *= FACTOR; }\n')
    request = BuildRequest(str(source), "host", "", "main", defines=(("FACTOR", "3"),), functions=("scale",))
    first, second = built(request), built(request)
    assert (first.cached, second.cached, first.path.suffix) == (False, True, ".so")
    assert "-DFACTOR=3" in first.command and first.resources == {}
    wrong = replace(request, defines=())
    error = api.build([wrong])[wrong]
    assert isinstance(error, CompileError)
    assert "FACTOR" in error.errors[0] and f"{source} does not compile for the CPU" in str(error)
