"""Reading sources as text: entry points and includes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runner.build.model import CompileError
from runner.build.sources import closure, entry_points


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('extern "C" __global__ void scale(float* x) {}', ("scale",)),
        ('extern "C"\n__global__\nvoid __launch_bounds__(256, (1 + 1)) scale (float* x) {}', ("scale",)),
        ('extern "C" __global__ __launch_bounds__(BLOCK) void scale(float* x) {}', ("scale",)),
        (
            'extern "C" __global__ void a(int);\nextern "C" __global__ void b();\nextern "C" __global__ void a(int) {}',
            ("a", "b"),
        ),
        (
            '// extern "C" __global__ void old();\n/* extern "C" __global__ void older(); */\n'
            'extern "C" __global__ void a();',
            ("a",),
        ),
        ('const char* url = "http://x"; extern "C" __global__ void a();', ("a",)),
        ('template <int N> __global__ void t(float* x) {}\nextern "C" __global__ void a();', ("a",)),
        (
            '#define SCAN(D, Type) \\\n  extern "C" __global__ void scan_##Type##_d##D(Type* x) { \\\n'
            "    x[0] = 0; }\n"
            "SCAN(64, float)\nSCAN(128, int)\n",
            ("scan_float_d64", "scan_int_d128"),
        ),
        (
            '#define ONE(n) extern "C" __global__ void k##n() {}\n#define EACH(F) F(1) F(2)\nEACH(ONE)\n',
            ("k1", "k2"),
        ),
    ],
)
def test_entry_points(tmp_path: Path, text: str, names: tuple[str, ...]) -> None:
    assert entry_points(write(tmp_path / "k.cu", text)) == names


def test_a_source_without_entry_points_says_how_to_write_one(tmp_path: Path) -> None:
    source = write(tmp_path / "k.cu", "__global__ void mangled(float* x) {}")
    with pytest.raises(CompileError, match=r'k\.cu has no entry point\n.*extern "C" __global__ void name'):
        entry_points(source)


def test_a_missing_source_is_a_compile_error(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"cannot read .*no\.cu: No such file"):
        entry_points(tmp_path / "no.cu")


def test_includes_are_followed_through_files_and_roots(tmp_path: Path) -> None:
    root = tmp_path / "cuda_src"
    shared = write(root / "common" / "reduce.cuh", '#include "deep.cuh"\n#include <cuda_fp16.h>\n')
    deep = write(root / "common" / "deep.cuh", '#include "reduce.cuh"\n')
    angled = write(root / "angled.cuh", "")
    source = write(
        tmp_path / "user" / "k.cu",
        '#include "common/reduce.cuh"\n  #  include <angled.cuh>\n// #include "never.cuh"\n#include "local.h"\n',
    )
    local = write(tmp_path / "user" / "local.h", "")
    write(tmp_path / "user" / "never.cuh", "")
    assert set(closure(source, (root,))) == {source, shared, deep, angled, local}


def test_an_edit_is_seen_even_at_the_same_size(tmp_path: Path) -> None:
    source = write(tmp_path / "k.cu", "int a;")
    before = closure(source, ())
    source.write_text("int b;")
    os.utime(source, ns=(1, 1))
    assert closure(source, ()) != before
