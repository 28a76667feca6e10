"""The sanitizers through whole commands on the host backend: each fault by its word, and none where there is none."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from tests.execute.test_sweep import QUICK, results, run

pytestmark = pytest.mark.slow

SHIPPED = ("fusion", "moe_routing", "rope_layout")

PRETEND = """\
#!/bin/sh
if [ "$1" = --version ]; then echo "Version 2025.3.1.0"; exit 0; fi
for option in "$@"; do
  case "$option" in
    --log-file=*) log=${option#--log-file=} ;;
    --*) ;;
    *) break ;;
  esac
  shift
done
"$@" || exit $?
cat > "$log" <<'END'
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at scale(float *)+0x90 in scale.cu:7
=========     by thread (31,0,0) in block (3,0,0)
=========     Address 0x7f2b4e400200 is out of bounds
=========
========= ERROR SUMMARY: 1 error
END
exit 42
"""
"""Runs what follows its options, and has found something."""


def by_variant(folder: Path) -> dict[str, dict[str, Any]]:
    return {result["variant"]: result for result in results(folder)}


@pytest.mark.parametrize(
    ("word", "variant", "kind", "where"),
    [
        ("memcheck", "out_of_bounds", "heap-buffer-overflow, write of 4 bytes", "unsafe_out_of_bounds in unsafe.cu:6"),
        ("racecheck", "race", "Result depends on the order of threads and blocks", "check unsafe_copy"),
        ("initcheck", "unset", "Result depends on uninitialised memory", "check unsafe_copy"),
        ("synccheck", "barrier", "Divergent __syncthreads", "unsafe_barrier"),
    ],
)
def test_a_fault_is_found_by_its_word_and_makes_the_result_incorrect(
    tmp_path: Path, word: str, variant: str, kind: str, where: str
) -> None:
    names = dict.fromkeys(["none", "race", "barrier", variant])  # the others also show elsewhere
    done = run(tmp_path, "kernel=unsafe", f"variants=[{','.join(names)}]", f"profiler={word}", *QUICK, timeout=300)
    assert done.returncode == 1, done.stdout + done.stderr
    found = by_variant(tmp_path)
    assert {name: one["status"] for name, one in found.items()} == {
        name: "INCORRECT" if name == variant else "PASSED" for name in names
    }
    result = found[variant]
    assert result["message"].startswith(f"[{word}] {kind} {where}")
    assert [(one["kind"], one["where"]) for one in result["profile"]["findings"]] == [(kind, where)]
    assert result["metrics"]["time_us"] > 0
    (artifact,) = result["profile"]["artifacts"]
    assert artifact.endswith(f"_{word}.txt")
    (path,) = tmp_path.rglob(artifact)
    assert where.split(" ")[0] in path.read_text()
    assert all(one["profile"]["status"] == "OK" for one in found.values())


@pytest.mark.parametrize(
    ("families", "tools"),
    [(SHIPPED, "memcheck,synccheck"), (("fusion",), "racecheck,initcheck")],
    ids=["accesses and barriers", "order and memory"],
)
def test_shipped_families_are_clean(tmp_path: Path, families: tuple[str, ...], tools: str) -> None:
    arguments = [f"kernel={','.join(families)}", "scale=smoke", f"profiler.tools=[{tools}]", *QUICK, "-m"]
    done = run(tmp_path, *arguments, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr
    found = results(tmp_path)
    assert {result["kernel"] for result in found} == set(families)
    for result in found:
        if result["status"] != "SKIPPED":
            assert result["status"] == "PASSED", result["message"]
            assert result["profile"]["status"] == "OK", result["profile"]["reason"]
            assert result["profile"]["findings"] == []


def test_a_compiler_without_the_address_sanitizer_costs_the_profile_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tmp_path / "g++"
    compiler.write_text(
        '#!/bin/sh\ncase "$*" in *libasan.so*) echo libasan.so; exit 0;; esac\nexec /usr/bin/g++ "$@"\n'
    )
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CXX", str(compiler))
    done = run(tmp_path, "kernel=faulty", "profiler=memcheck", *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = results(tmp_path)
    assert result["status"] == "PASSED"
    assert result["profile"]["status"] == "UNAVAILABLE"
    assert "has no libasan.so" in result["profile"]["reason"]


def test_a_program_is_compute_sanitizers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "compute-sanitizer"
    tool.write_text(PRETEND)
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("RUNNER_COMPUTE_SANITIZER", str(tool))
    program = ["kernel=command", "command.argv=[ls]", "profiler=memcheck", "tracking=none"]
    done = run(tmp_path, *program)
    assert done.returncode == 1, done.stdout + done.stderr
    (result,) = results(tmp_path)
    assert result["status"] == "INCORRECT"
    assert result["message"] == "[memcheck] Invalid __global__ write of size 4 bytes scale in scale.cu:7"


def test_a_program_without_compute_sanitizer_runs_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNNER_COMPUTE_SANITIZER", "/not/there")
    program = ["kernel=command", "command.argv=[ls]", "profiler=memcheck", "tracking=none"]
    done = run(tmp_path, *program)
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = results(tmp_path)
    assert (result["status"], result["profile"]["status"]) == ("PASSED", "UNAVAILABLE")
    assert "cuda-sanitizer" in result["profile"]["reason"]
