"""Every kernel source compiles for every architecture without a warning and without spilling registers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runner.workload.decoder import PROGRAMMATIC
from runner.workload.tp_allreduce import KERNELS
from tests.kernels.plans import FAMILIES, SOURCES, WHOLE, plan

NVCC = shutil.which("nvcc")
FIRST = "sm_90a"
OTHERS = ("sm_75", "sm_80", "sm_89", "sm_100a", "sm_120a")
ALL = os.environ.get("RUNNER_ALL_ARCHITECTURES") == "1"
"""The other architectures take minutes: ``make compile-test`` asks for them."""
SIZES: tuple[tuple[str, dict[str, Any]], ...] = (
    *((family, {"D": dim}) for family in ("kv_quant", "gqa_decode", "paged_kv_decode") for dim in (80, 256)),
    *(("quant_decode", {"group": group}) for group in (32, 96)),
    *(("fusion", {"H": hidden}) for hidden in (100, 896, 16384)),
    *(("mini_llm", {"weights": kind, "B": batch}) for kind in ("bf16", "w8a16", "w4a16") for batch in (1, 2, 3, 4)),
    *(("mini_llm", {"weights": "fp32", "kv": kind, "D": 64}) for kind in ("fp32", "int8", "fp8")),
    ("mini_llm", {"D": 256, "kv": "int8", "tied": True}),
    *(("mini_llm", {"weights": kind, "B": 4, "positions": 1024}) for kind in ("fp32", "bf16", "w8a16", "w4a16")),
    ("mini_llm", {"weights": "w8a16", "B": 1, "positions": 1024}),
)
"""Parameters that are compiled in and change the registers a kernel needs, besides their defaults."""
_FUNCTION = re.compile(r"Function properties for (\w+)\n\s*(\d+) bytes stack frame, (\d+) bytes spill stores")

pytestmark = pytest.mark.skipif(NVCC is None, reason="no CUDA toolkit (nvcc is not on the PATH)")


def compiled(source: Path, arch: str, folder: Path, defines: Mapping[str, str]) -> dict[str, tuple[int, int]]:
    """Kernel → (stack bytes, spilled bytes). Fails on any warning."""
    command = [str(NVCC), "-std=c++17", f"-arch={arch}", "-cubin", "-Xptxas=-v", "-Werror=all-warnings"]
    command += ["-I", str(SOURCES), *(f"-D{name}={value}" for name, value in defines.items())]
    command += ["-o", str(folder / "out.cubin"), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    text = done.stdout + done.stderr
    assert done.returncode == 0 and "warning" not in text, text
    return {name: (int(stack), int(spilled)) for name, stack, spilled in _FUNCTION.findall(text)}


_SEEN: dict[tuple[str, str, str], dict[str, tuple[int, int]]] = {}
"""Families that share a source and what is compiled into it share a compilation too."""


def require_registers_only(family: str, arch: str, folder: Path, params: Mapping[str, Any] | None = None) -> None:
    made = plan(family, {**WHOLE.get(family, {}), **(params or {})})
    key = (made.source, arch, repr(sorted(made.defines.items())))
    if key not in _SEEN:
        _SEEN[key] = compiled(Path(made.source), arch, folder, made.defines)
    used = _SEEN[key]
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
@pytest.mark.parametrize(("family", "params"), SIZES, ids=str)
def test_sizes_that_are_compiled_in(family: str, params: dict[str, Any], tmp_path: Path) -> None:
    require_registers_only(family, FIRST, tmp_path, params)


@pytest.mark.parametrize(
    ("family", "params", "overlapping"),
    [
        ("mini_llm", {"weights": "w8a16", "B": 1}, set(PROGRAMMATIC)),
        ("tp_allreduce", {}, set(KERNELS.values())),
        ("collectives", {}, set()),
    ],
)
def test_kernels_that_may_overlap_wait_before_they_let_others_go(
    family: str, params: dict[str, Any], overlapping: set[str], tmp_path: Path
) -> None:
    """What a race on a GPU would show now and then: those that are launched so wait, none releases before, and no other
    kernel does either."""
    made = plan(family, params)
    out = tmp_path / "out.ptx"
    command = [str(NVCC), "-std=c++17", f"-arch={FIRST}", "-ptx", "-I", str(SOURCES), "-o", str(out), made.source]
    command += [f"-D{name}={value}" for name, value in made.defines.items()]
    subprocess.run(command, check=True, timeout=300)
    kernels = re.split(r"\.visible \.entry (\w+)\(", out.read_text())[1:]
    waiting = set()
    for name, body in zip(kernels[::2], kernels[1::2], strict=True):
        seen = re.findall(r"griddepcontrol\.(\w+);", body)
        if seen:
            waiting.add(name)
            assert set(seen[: seen.index("wait") + 1]) == {"wait"}, f"{name} releases before it waits"
    assert waiting == overlapping


@pytest.mark.parametrize(
    ("family", "macro", "size"),
    [("kv_quant", "HEAD_DIM", 24), ("quant_decode", "GROUP", 0), ("mini_llm", "BATCH_TILE", 9)],
)
def test_impossible_sizes_do_not_compile(family: str, macro: str, size: int, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=macro):
        compiled(SOURCES / f"{family}.cu", "sm_90a", tmp_path, {macro: str(size)})
