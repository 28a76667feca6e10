"""The host compiler: which one, its command line, and sanitizer reports."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from runner.build import host
from runner.build.host import HostCompiler
from runner.build.model import CompileError, CompilerMissing
from runner.build.sanitizer import report
from runner.paths import cuda_src_dir

GCC = HostCompiler("/usr/bin/g++", "g++ (Debian 12.2.0) 12.2.0")
CLANG = HostCompiler("/usr/bin/clang++", "Debian clang version 14.0.6")


def fake_compiler(folder: Path, text: str) -> Path:
    path = folder / "my c++"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_cxx_is_preferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fake_compiler(tmp_path, "echo clang version 99; echo more")
    monkeypatch.setenv("CXX", str(path))
    found = host.compiler()
    assert found == HostCompiler(str(path), "clang version 99")
    assert found.is_clang and not GCC.is_clang


def test_no_compiler_gives_the_install_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CompilerMissing, match=r"no C\+\+ compiler found \(tried g\+\+, c\+\+, clang\+\+\)") as caught:
        host.compiler()
    assert "install it with: " in caught.value.advice
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    with pytest.raises(CompilerMissing, match="xcode-select --install"):
        host.compiler()
    monkeypatch.setenv("CXX", "absent++")
    with pytest.raises(CompilerMissing, match="CXX=absent"):
        host.compiler()


def test_a_compiler_that_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", str(fake_compiler(tmp_path, "echo broken >&2; exit 3")))
    with pytest.raises(CompilerMissing, match="--version failed: broken"):
        host.compiler()


def test_the_cpu_is_in_its_key() -> None:
    assert host.cpu_key() == host.cpu_key()
    assert len(host.cpu_key().split()) >= 2


def command(**changes: object) -> list[str]:
    arguments: dict[str, object] = {"unit": "main", "defines": {}, "with_compiler": GCC, **changes}
    return host.command("w.cpp", "w.so", **arguments)  # type: ignore[arg-type]


def test_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("platform.system", lambda: "Linux")
    folder = cuda_src_dir()
    assert command(defines={"TILE": "32", "FAST": ""}, include_dirs=["/a b"]) == [
        "/usr/bin/g++",
        "-x",
        "c++",
        "-std=c++17",
        "-shared",
        "-fPIC",
        "-pthread",
        "-march=native",
        "-ffp-contract=fast",
        "-fno-strict-aliasing",
        "-fno-math-errno",
        "-fno-trapping-math",
        "-fvisibility=hidden",
        "-fno-stack-protector",
        "-Wno-attributes",
        "-Wno-unknown-pragmas",
        "-fcf-protection=none",
        "-O3",
        f"-I{folder}/host/include",
        f"-I{folder}",
        "-I/a b",
        "-DTILE=32",
        "-DFAST",
        "-include",
        f"{folder}/host/cuda.h",
        "w.cpp",
        "-o",
        "w.so",
    ]


def test_contraction_by_unit_and_flag() -> None:
    assert "-ffp-contract=fast" in command()
    assert "-ffp-contract=off" in command(unit="prepare")
    assert "-ffp-contract=off" in command(flags=["--fmad=false"])
    assert not any("fast-math" in part for part in command(flags=["--use_fast_math"]))


def test_options_for_nvcc_do_not_reach_the_compiler() -> None:
    flags = ["-DA=1", "-U", "B", "-I", "/x", "--use_fast_math", "-maxrregcount=64", "-Xptxas", "-v", "-lineinfo"]
    line = command(flags=[*flags, "--expt-relaxed-constexpr", "-arch=sm_90", "-O2", "-std=c++20"])
    without = command()
    assert [part for part in line if part not in without] == ["-DA=1", "-UB", "-I/x"]


def test_sanitizing() -> None:
    line = command(sanitize=True)
    assert "-fsanitize=address" in line and "-g" in line and "-O3" not in line
    with pytest.raises(CompilerMissing, match=r"sanitize=true needs g\+\+, and the compiler is /usr/bin/clang"):
        command(sanitize=True, with_compiler=CLANG)
    with pytest.raises(CompilerMissing, match="leave CXX unset"):
        host.sanitizer_environment(CLANG)


def test_other_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    line = command()
    assert "-mcpu=native" in line and "-march=native" not in line and "-fcf-protection=none" not in line


def test_the_sanitizer_environment() -> None:
    environment = host.sanitizer_environment()
    paths = environment["LD_PRELOAD"].split()
    assert len(paths) == 2 and all(Path(path).is_file() for path in paths)
    assert "asan" in paths[0]
    assert "detect_leaks=0" in environment["ASAN_OPTIONS"]


def test_a_compiler_without_a_sanitizer(tmp_path: Path) -> None:
    path = fake_compiler(tmp_path, 'for last; do :; done; echo "${last#-print-file-name=}"')
    with pytest.raises(CompilerMissing, match=r"has no libasan\.so"):
        host.sanitizer_environment(HostCompiler(str(path), "g++ 12"))


def test_the_wrapper_names_every_kernel() -> None:
    text = host.wrapper("/some where/k.cu", ("a", "b"))
    assert text.splitlines()[0] == '#include "/some where/k.cu"'
    assert "#define HOST_KERNELS HOST_KERNEL(a) HOST_KERNEL(b)\n" in text
    with pytest.raises(CompileError, match="neither quotes nor newlines"):
        host.wrapper('/a"b.cu', ())


LANGUAGE = r"""
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <math_constants.h>
#include <cassert>
#include <algorithm>
#include <type_traits>
template <int N, typename T>
__device__ __forceinline__ T sum(const T (&values)[N]) {
    T total = T(0);
#pragma unroll
    for (int i = 0; i < N; ++i) total += values[i];
    return total;
}
struct __align__(8) Pair { float a, b; };
__device__ __noinline__ float slow(float x) { return CUDART_PI_F * x; }
extern "C" __global__ __launch_bounds__(128, 2) void one(const half* __restrict__ in, __nv_bfloat16* out, int n) {
    __shared__ alignas(16) half tile[128];
    __shared__ __align__(16) Pair pairs[4];
    half2 h = __floats2half2_rn(1.0f, 2.0f);
    float values[4] = {slow(1.0f), __half2float(in[0]), __ldg(&pairs[0].a), float(__nv_fp8_e4m3(3.0f))};
    tile[threadIdx.x] = __low2half(h);
    assert(n > 0);
    if (static_cast<int>(threadIdx.x) < n) out[threadIdx.x] = __float2bfloat16(sum(values));
}
extern "C" __global__ void two(float4* data) { data[blockIdx.x] = make_float4(1, 2, 3, 4); }
"""


@pytest.mark.parametrize(
    ("name", "sanitize"),
    [one for one in (("g++", False), ("g++", True), ("clang++", False)) if shutil.which(one[0])],
)
def test_what_cuda_code_uses_compiles_without_a_warning(tmp_path: Path, name: str, sanitize: bool) -> None:
    folder = tmp_path / "quotes ' and spaces"
    folder.mkdir()
    source, wrapper, out = folder / "k.cu", folder / "w.cpp", folder / "k.so"
    source.write_text(LANGUAGE)
    wrapper.write_text(host.wrapper(source, ("one", "two")))
    line = host.command(
        wrapper, out, unit="main", defines={}, sanitize=sanitize, with_compiler=HostCompiler(name, name)
    )
    used = os.times().children_user
    done = subprocess.run([*line, "-Wall", "-Wextra"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert out.is_file()
    assert os.times().children_user - used < 3.0


def test_an_error_names_the_source_and_its_line(tmp_path: Path) -> None:
    source, wrapper = tmp_path / "k.cu", tmp_path / "w.cpp"
    source.write_text('extern "C" __global__ void k(int* out) {\n    out[0] = absent;\n}\n')
    wrapper.write_text(host.wrapper(source, ("k",)))
    line = host.command(wrapper, tmp_path / "k.so", unit="main", defines={})
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f"{source}:2:14: error:" in done.stderr


REPORT = """\
some line before
=================================================================
==77==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x61 at pc 0x7f bp 0x7e sp 0x7d
READ of size 16 at 0x61 thread T3
    #0 0x7f01 in load(float const*, long) /home/me/k/helpers.cuh:12
    #1 0x7f02 in scan /home/me/k/scan.cu:40
    #2 0x7f03 in call<0, 1> /opt/runner/cuda_src/host/unit.h:80
    #3 0x7f04 in fiber /opt/runner/cuda_src/host/block.h:280

0x61 is located 4 bytes after 64-byte region [0x5d,0x61)
allocated by thread T0 here:
    #0 0x7f05 in posix_memalign ../../asan_malloc_linux.cpp:226
"""


def test_a_report_becomes_two_lines() -> None:
    assert report(REPORT) == (
        "the address sanitizer found a heap-buffer-overflow, read of 16 bytes in kernel scan at "
        "/home/me/k/helpers.cuh:12, function load\n"
        "  the address is 4 bytes after 64-byte region [0x5d,0x61)"
    )


def test_a_report_names_a_source_whose_path_holds_spaces() -> None:
    text = REPORT.replace("/home/me/k/helpers.cuh", "/home/me/my own/k 2/helpers.cuh")
    assert " at /home/me/my own/k 2/helpers.cuh:12, function load" in report(text)


def test_a_report_without_access_or_frames() -> None:
    text = "==1==ERROR: AddressSanitizer: SEGV on unknown address 0x0\nnothing else\n"
    assert report(text) == "the address sanitizer found a SEGV"
    assert report("Segmentation fault") == ""
