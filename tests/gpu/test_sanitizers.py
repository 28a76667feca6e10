"""compute-sanitizer on a real GPU: faults that leave the result right, each found by its word."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.gpu.test_families import USER, run

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(shutil.which("compute-sanitizer") is None, reason="compute-sanitizer is not on the PATH"),
]


@pytest.mark.parametrize(
    ("word", "variant", "kind", "where"),
    [
        (
            "memcheck",
            "out_of_bounds",
            "Invalid __global__ write of size 4 bytes",
            "unsafe_out_of_bounds in unsafe.cu:6",
        ),
        ("racecheck", "race", "Race between ", "unsafe_race in unsafe.cu:"),
        ("initcheck", "unset", "Uninitialized __global__ memory read of size 4 bytes", "unsafe_unset in unsafe.cu:"),
    ],
)
def test_a_fault_is_found_by_its_word(tmp_path: Path, word: str, variant: str, kind: str, where: str) -> None:
    code, output, results = run(
        tmp_path,
        "--config-dir",
        str(USER),
        "kernel=unsafe",
        f"variants=[none,{variant}]",
        f"profiler={word}",
        "gpu=auto",
        "measure=quick",
        "tracking=none",
    )
    assert code == 1, output
    found = {result["variant"]: result for result in results}
    assert found["none"]["status"] == "PASSED", found["none"]["message"]
    assert found["none"]["profile"]["status"] == "OK", found["none"]["profile"]["reason"]
    assert found[variant]["status"] == "INCORRECT", found[variant]["message"]
    finding = found[variant]["profile"]["findings"][0]
    assert finding["kind"].startswith(kind)
    assert finding["where"].startswith(where)
