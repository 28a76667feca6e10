"""nvcc's command line to the last argument, and what is read from its output."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runner.build import cuda
from runner.build.model import BuildRequest, CompilerMissing, KernelResources
from runner.paths import cuda_src_dir

MAIN = BuildRequest(
    source="/k/decode.cu",
    backend="cuda",
    arch="sm_90a",
    unit="main",
    defines=(("BLOCK", "256"), ("HEAD_DIM", "128")),
    flags=("--use_fast_math", "-maxrregcount=64"),
    functions=("decode",),
)

PTXAS = """\
ptxas info    : 11 bytes gmem, 24 bytes cmem[4]
ptxas info    : Compiling entry function 'spill' for 'sm_90a'
ptxas info    : Function properties for helper
    8 bytes stack frame, 99 bytes spill stores, 99 bytes spill loads
ptxas info    : Function properties for spill
    256 bytes stack frame, 40 bytes spill stores, 44 bytes spill loads
ptxas info    : Used 72 registers, used 1 barriers, 256 bytes cumulative stack size, 2064 bytes smem, 400 bytes cmem[0]
ptxas info    : Compile time = 338.606 ms
ptxas info    : Compiling entry function 'scale' for 'sm_90a'
ptxas info    : Function properties for scale
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers
"""


def test_command_of_the_main_unit() -> None:
    assert cuda.command(MAIN, "out.cubin", "/usr/bin/nvcc") == [
        "/usr/bin/nvcc",
        "-cubin",
        "-arch=sm_90a",
        "--std=c++17",
        "-lineinfo",
        "-Xptxas",
        "-v",
        "-I",
        str(cuda_src_dir()),
        "-DBLOCK=256",
        "-DHEAD_DIM=128",
        "--use_fast_math",
        "-maxrregcount=64",
        "-o",
        "out.cubin",
        "/k/decode.cu",
    ]


def test_command_of_the_prepare_unit_has_no_contraction() -> None:
    assert cuda.command(replace(MAIN, unit="prepare", defines=(), flags=()), "o", "nvcc")[7:] == [
        "-I",
        str(cuda_src_dir()),
        "-fmad=false",
        "-o",
        "o",
        "/k/decode.cu",
    ]


def test_resources_of_each_kernel_without_those_of_its_helpers() -> None:
    assert cuda.resources(PTXAS) == {
        "spill": KernelResources(72, shared_bytes=2064, spill_stores=40, spill_loads=44, stack_bytes=256),
        "scale": KernelResources(10),
    }


def test_error_lines_are_the_compilers_own() -> None:
    log = "k.cu(1): warning #177-D: unused\nk.cu(3): error: expected an expression\n  int x = ;\n          ^\n\n"
    log += "k.cu(9): error: identifier is undefined\n2 errors detected in the compilation\n"
    assert cuda.error_lines(log)[:2] == (
        "k.cu(3): error: expected an expression",
        "k.cu(9): error: identifier is undefined",
    )
    assert cuda.error_lines("nvcc fatal   : Unsupported gpu architecture 'sm_999'") == (
        "nvcc fatal   : Unsupported gpu architecture 'sm_999'",
    )
    assert cuda.error_lines("Killed\n") == ("Killed",)


def fake_nvcc(root: Path) -> str:
    program = root / "bin" / "nvcc"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return str(program)


def test_nvcc_is_looked_for_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, root, path, default = (fake_nvcc(tmp_path / name) for name in ("home", "root", "path", "default"))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CUDA_ROOT", str(tmp_path / "root"))
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    monkeypatch.setattr(cuda, "DEFAULT_ROOT", tmp_path / "default")
    assert cuda.compiler() == home
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "empty"))
    assert cuda.compiler() == root
    monkeypatch.delenv("CUDA_ROOT")
    assert cuda.compiler() == path
    monkeypatch.setenv("PATH", "")
    assert cuda.compiler() == default
    monkeypatch.setattr(cuda, "DEFAULT_ROOT", tmp_path / "none")
    with pytest.raises(CompilerMissing, match=r"nvcc was not found .*\n.*Install the CUDA toolkit .*CUDA_HOME"):
        cuda.compiler()
