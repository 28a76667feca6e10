"""Every kernel source compiles for every architecture without a warning and without spilling registers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.kernels.plans import FAMILIES, SOURCES, plan

NVCC = shutil.which("nvcc")
FIRST = "sm_90a"
OTHERS = ("sm_75", "sm_80", "sm_89", "sm_100a", "sm_120a")
ALL = os.environ.get("RUNNER_ALL_ARCHITECTURES") == "1"
"""The other architectures take minutes: ``make compile-test`` asks for them."""
SIZES: dict[str, tuple[str, tuple[int, ...]]] = {
    "kv_quant": ("D", (80, 256)),
    "gqa_decode": ("D", (80, 256)),
    "paged_kv_decode": ("D", (80, 256)),
    "quant_decode": ("group", (32, 96)),
    "fusion": ("H", (100, 896, 16384)),
    "mini_llm": ("B", (3, 4)),
}
"""Parameters that are compiled in and change the registers a kernel needs, besides their defaults."""
_FUNCTION = re.compile(r"Function properties for (\w+)\n\s*(\d+) bytes stack frame, (\d+) bytes spill stores")

pytestmark = pytest.mark.skipif(NVCC is None, reason="no CUDA toolkit (nvcc is not on the PATH)")


def compiled(family: str, arch: str, folder: Path, defines: Mapping[str, str]) -> dict[str, tuple[int, int]]:
    """Kernel → (stack bytes, spilled bytes). Fails on any warning."""
    command = [str(NVCC), "-std=c++17", f"-arch={arch}", "-cubin", "-Xptxas=-v", "-Werror=all-warnings"]
    command += ["-I", str(SOURCES), *(f"-D{name}={value}" for name, value in defines.items())]
    command += ["-o", str(folder / "out.cubin"), str(SOURCES / f"{family}.cu")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    text = done.stdout + done.stderr
    assert done.returncode == 0 and "warning" not in text, text
    return {name: (int(stack), int(spilled)) for name, stack, spilled in _FUNCTION.findall(text)}


def require_registers_only(family: str, arch: str, folder: Path, params: Mapping[str, int] | None = None) -> None:
    used = compiled(family, arch, folder, plan(family, params).defines)
    assert used, "the compiler reported no kernel"
    assert {name: what for name, what in used.items() if what != (0, 0)} == {}


@pytest.mark.parametrize("family", FAMILIES)
def test_hopper(family: str, tmp_path: Path) -> None:
    require_registers_only(family, FIRST, tmp_path)


@pytest.mark.skipif(not ALL, reason="make compile-test compiles for every architecture")
@pytest.mark.parametrize("arch", OTHERS)
@pytest.mark.parametrize("family", FAMILIES)
def test_other_architectures(family: str, arch: str, tmp_path: Path) -> None:
    require_registers_only(family, arch, tmp_path)


@pytest.mark.skipif(not ALL, reason="make compile-test compiles all sizes")
@pytest.mark.parametrize(
    ("family", "letter", "size"),
    [(family, letter, size) for family, (letter, sizes) in SIZES.items() for size in sizes],
)
def test_sizes_that_are_compiled_in(family: str, letter: str, size: int, tmp_path: Path) -> None:
    require_registers_only(family, FIRST, tmp_path, {letter: size})


@pytest.mark.parametrize(
    ("family", "macro", "size"),
    [("kv_quant", "HEAD_DIM", 24), ("quant_decode", "GROUP", 0)],
)
def test_impossible_sizes_do_not_compile(family: str, macro: str, size: int, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=macro):
        compiled(family, "sm_90a", tmp_path, {macro: str(size)})
