"""The fill kernels: their launches, their equality with NumPy to the last bit, and that nvcc takes them.

Without a GPU the kernels run as plain C++: a thread is a function call with its indices set beforehand.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from runner.check import generator
from runner.check.fill import MAX_BLOCKS, fill_launches
from runner.plan import dtypes
from runner.plan.model import Argument, Buffer, Fill, Launch, Plan
from tests.plan.plans import plan_with

SHIM = """
struct Index { unsigned x; };
static Index threadIdx, blockIdx, blockDim, gridDim;
#define __global__
#define __device__
#include "common/fill.cu"
extern "C" void set_thread(unsigned block, unsigned blocks, unsigned thread, unsigned threads) {
    blockIdx.x = block; gridDim.x = blocks; threadIdx.x = thread; blockDim.x = threads;
}
template <typename Type> static void convert(const float* in, typename Type::Word* out, long long n) {
    for (long long i = 0; i < n; ++i) out[i] = Type::from(in[i]);
}
extern "C" void narrow_float16(const float* in, unsigned short* out, long long n) {
    convert<generator::Float16>(in, out, n);
}
extern "C" void narrow_bfloat16(const float* in, unsigned short* out, long long n) {
    convert<generator::Bfloat16>(in, out, n);
}
extern "C" void narrow_float8_e4m3(const float* in, unsigned char* out, long long n) {
    convert<generator::Float8E4M3>(in, out, n);
}
extern "C" void narrow_float8_e5m2(const float* in, unsigned char* out, long long n) {
    convert<generator::Float8E5M2>(in, out, n);
}
"""
SCALARS: dict[str, Callable[[Any], Any]] = {
    "int64": ctypes.c_int64,
    "uint64": ctypes.c_uint64,
    "float32": ctypes.c_float,
}
ARCHITECTURES = ("sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a")


def plan(*buffers: Buffer, seed: int = 11) -> Plan:
    return plan_with(buffers=buffers, seed=seed)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> ctypes.CDLL:
    compiler = shutil.which("g++") or shutil.which("clang++") or shutil.which("c++")
    if not compiler:
        pytest.skip("no C++ compiler (g++ or clang++) on the PATH")
    folder = tmp_path_factory.mktemp("fill")
    source, library = folder / "shim.cpp", folder / "fill.so"
    source.write_text(SHIM)
    flags = ["-std=c++17", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    command = [compiler, *flags, "-I", str(repository / "cuda_src"), str(source), "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(library))


def execute(kernels: ctypes.CDLL, launch: Launch, address: int) -> None:
    """Every thread of ``launch``, one after the other."""
    arguments = [
        ctypes.c_void_p(address) if item.kind == "buffer" else SCALARS[item.kind](item.value)
        for item in launch.arguments
    ]
    function = getattr(kernels, launch.function)
    for block in range(launch.grid[0]):
        for thread in range(launch.block[0]):
            kernels.set_thread(block, launch.grid[0], thread, launch.block[0])
            function(*arguments)


def filled(kernels: ctypes.CDLL, buffer: Buffer, offset: int = 0) -> npt.NDArray[np.uint8]:
    """Bytes of ``buffer`` after its launches, guards round it looked at; ``offset`` breaks the alignment."""
    size = buffer.elements * dtypes.itemsize(buffer.dtype)
    memory = np.full(size + 64 + offset, 0xA5, np.uint8)
    shift = -memory.ctypes.data % 16 + offset
    for launch in fill_launches(plan(buffer), buffer):
        execute(kernels, launch, memory.ctypes.data + shift)
    assert (memory[:shift] == 0xA5).all() and (memory[shift + size :] == 0xA5).all()
    return memory[shift : shift + size]


FILLS = [
    Fill("uniform", low=-1, high=1),
    Fill("uniform", low=-3e-8, high=2e-6),
    Fill("uniform", low=-600, high=600),
    Fill("integers", low=0, high=100),
    Fill("constant", value=3),
]


CASES = [
    pytest.param(name, fill, id=f"{name}-{fill.kind}[{fill.low:g},{fill.high:g}]")
    for name in dtypes.NAMES
    for fill in FILLS
    if fill.kind != "uniform" or dtypes.is_float(name)  # the others are refused, see test_generator
]


@pytest.mark.parametrize(("name", "fill"), CASES)
def test_kernels_equal_numpy_to_the_last_bit(kernels: ctypes.CDLL, name: str, fill: Fill) -> None:
    for elements in (1, 15, 4099):
        buffer = Buffer("x", (elements,), name, fill)
        expected = generator.values(buffer, 11, 0, elements)
        assert filled(kernels, buffer).tobytes() == expected.tobytes()


@pytest.mark.parametrize("fill", FILLS[::3], ids=lambda fill: fill.kind)
def test_an_unaligned_buffer_is_filled_too(kernels: ctypes.CDLL, fill: Fill) -> None:
    buffer = Buffer("x", (1001,), "float32", fill)
    expected = generator.values(buffer, 11, 0, 1001)
    assert filled(kernels, buffer, offset=4).tobytes() == expected.tobytes()


@pytest.mark.parametrize(("low", "high"), [(-(2**31), 2**31), (-(2.0**52), -(2.0**52) + 1000), (5, 6)])
def test_wide_and_far_integers(kernels: ctypes.CDLL, low: float, high: float) -> None:
    buffer = Buffer("x", (999,), "int64", Fill("integers", low=low, high=high))
    expected = generator.values(buffer, 11, 0, 999)
    assert filled(kernels, buffer).tobytes() == expected.tobytes()


def test_a_grid_smaller_than_the_buffer_covers_it(kernels: ctypes.CDLL) -> None:
    buffer = Buffer("x", (5000,), "float16", Fill("uniform"))
    (launch,) = fill_launches(plan(buffer), buffer)
    small = Launch(launch.function, (2, 1, 1), (3, 1, 1), launch.arguments, unit="fill")
    memory = np.zeros(5000, np.float16)
    execute(kernels, small, memory.ctypes.data)
    assert memory.tobytes() == generator.values(buffer, 11, 0, 5000).tobytes()


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3", "float8_e5m2"])
def test_conversions_equal_numpy_everywhere(kernels: ctypes.CDLL, name: str) -> None:
    """A million floats of every exponent and sign, with many ties among them."""
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 1 << 32, 1_000_000, dtype=np.uint64).astype(np.uint32)
    bits[::2] &= np.uint32(0xFFFFF000)
    bits[::3] &= np.uint32(0xFFF80000)
    bits[::5] &= np.uint32(0xFF008000)
    floats = bits.view(np.float32)
    floats = np.concatenate((floats[np.isfinite(floats)], np.array([0.0, -0.0], np.float32)))
    with np.errstate(over="ignore"):
        expected = generator.narrow(floats, name)
    made = np.empty(len(floats), f"uint{8 * dtypes.itemsize(name)}")
    pointers = (ctypes.c_void_p(floats.ctypes.data), ctypes.c_void_p(made.ctypes.data))
    getattr(kernels, f"narrow_{name}")(*pointers, ctypes.c_int64(len(floats)))
    differ = np.flatnonzero(made != expected.view(made.dtype))
    assert differ.size == 0, (floats[differ[:5]], made[differ[:5]], expected[differ[:5]])


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_nvcc_compiles_without_a_warning(tmp_path: Path, repository: Path, arch: str) -> None:
    nvcc = shutil.which("nvcc")
    if not nvcc:
        pytest.skip("no nvcc on the PATH")
    listing = subprocess.run([nvcc, "--list-gpu-code"], capture_output=True, text=True, check=True)
    known = listing.stdout.split()
    if arch not in known and arch.rstrip("a") not in known:
        pytest.skip(f"this nvcc does not know {arch}")
    source = repository / "cuda_src" / "common" / "fill.cu"
    warnings = ["-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra"]
    done = subprocess.run(
        [
            nvcc,
            "-ptx",
            f"-arch={arch}",
            "--std=c++17",
            "-fmad=false",
            *warnings,
            str(source),
            "-o",
            "fill.ptx",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    text = (tmp_path / "fill.ptx").read_text()
    assert "fma.rn.f32" not in text
    assert "st.global.v4" in text


def test_launch_of_a_uniform_fill() -> None:
    buffer = Buffer("x", (100, 10), "float16", Fill("uniform", low=-0.1, high=0.2), device=1)
    low, width = generator.limits(-0.1, 0.2)
    arguments = (
        Argument("buffer", buffer="x"),
        Argument("int64", value=1000),
        Argument("uint64", value=generator.key(11, "x")),
        Argument("float32", value=float(low)),
        Argument("float32", value=float(width)),
    )
    expected = Launch("fill_uniform_float16", (1, 1, 1), (256, 1, 1), arguments, unit="fill", device=1)
    assert fill_launches(plan(buffer), buffer) == [expected]


def test_launch_of_an_integer_fill() -> None:
    buffer = Buffer("x", (1 << 33,), "int8", Fill("integers", low=-128, high=128))
    (launch,) = fill_launches(plan(buffer), buffer)
    assert launch.function == "fill_integers_int8"
    assert launch.grid == (MAX_BLOCKS, 1, 1)
    assert [item.value for item in launch.arguments[3:]] == [-128, 256]


@pytest.mark.parametrize(
    ("name", "function", "bits"),
    [
        ("float32", "fill_constant_32bit", 0xBFC00000),
        ("bfloat16", "fill_constant_16bit", 0xBFC0),
        ("float64", "fill_constant_64bit", 0xBFF8000000000000),
        ("float8_e4m3", "fill_constant_8bit", 0xBC),
    ],
)
def test_launch_of_a_constant(name: str, function: str, bits: int) -> None:
    buffer = Buffer("x", (8,), name, Fill("constant", value=-1.5))
    (launch,) = fill_launches(plan(buffer), buffer)
    assert launch.function == function
    assert launch.arguments[2] == Argument("uint64", value=bits)


@pytest.mark.parametrize(
    "buffer",
    [
        Buffer("x", (8,), "int8", Fill()),
        Buffer("x", (8,), "int8", Fill("zeros")),
        Buffer("x", (8, 0), "int8", Fill("integers", low=0, high=2)),
    ],
)
def test_nothing_to_launch(buffer: Buffer) -> None:
    assert fill_launches(plan(buffer), buffer) == []


def test_an_impossible_fill_is_refused() -> None:
    buffer = Buffer("x", (8,), "int8", Fill("uniform"))
    with pytest.raises(generator.FillError, match="use 'integers'"):
        fill_launches(plan(buffer), buffer)
