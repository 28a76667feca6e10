"""``benchmarks/verdicts.py``: the kernel that it slows, what it calls a fault, and the page it writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.benchmark_scripts import load

verdicts = load("verdicts")


def pair(variant: str, context: int, verdict: str, effect: float | None = 0.0) -> dict[str, Any]:
    figures = {"effect": effect, "low": None, "high": None, "reason": ""}
    return {"variant": variant, "params": {"T": str(context)}, "verdict": verdict, **figures}


def test_one_kernel_of_the_copy_is_slowed_and_nothing_else(tmp_path: Path) -> None:
    verdicts.slowed_copy(tmp_path)
    for part in verdicts.PARTS:
        assert (tmp_path / part).exists()
    ours, theirs = (root / "cuda_src" / "kv_quant.cu" for root in (verdicts.ROOT, tmp_path))
    begin, text = theirs.read_text().split(verdicts.WAIT)
    assert begin + text == ours.read_text()
    assert verdicts.ENTRY in begin.rsplit("__global__", 1)[1] and begin.endswith("{\n")


def test_what_is_a_fault() -> None:
    slowed = verdicts.SLOWED
    right = {
        "again_1": {"pairs": [pair("q8", 8192, "AMBIGUOUS"), pair("fp32", 32768, "FASTER")]},
        "slowed": {"pairs": [pair(slowed, verdicts.AT, "SLOWER", 0.03), pair(slowed, 8192, "AMBIGUOUS", 0.08)]},
    }
    assert list(verdicts.judged(right)) == []
    wrong = {
        "again_1": {"pairs": [pair("q8", 8192, "SLOWER")]},
        "slowed": {"pairs": [pair(slowed, verdicts.AT, "AMBIGUOUS"), pair("q8", 8192, "SLOWER")]},
    }
    assert [line.split(":")[0] for line in verdicts.judged(wrong)] == ["again_1", "slowed", "slowed"]


def test_a_slowed_kernel_that_was_not_compared_is_a_fault() -> None:
    again = {"again_1": {"pairs": [pair("q8", 8192, "SAME")]}}
    told = [f"slowed: {verdicts.SLOWED} T={verdicts.AT} was not compared"]
    assert list(verdicts.judged(again)) == told
    assert list(verdicts.judged(again | {"slowed": {"pairs": [pair("q8", verdicts.AT, "SAME")]}})) == told


def test_an_older_comparison_stands_for_none(tmp_path: Path) -> None:
    """There is nothing to compare, and the file of an earlier call."""
    file = tmp_path / "comparisons" / "again_1" / "comparison.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"pairs": []}')
    with pytest.raises(SystemExit, match=r"again_1: no comparison \(exit code 2\)"):
        verdicts.compared(tmp_path / "runs", "again_1")


def test_the_page(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "baseline" / "0" / "fp32"
    run.mkdir(parents=True)
    environment = {"device": {"name": "NVIDIA H200"}, "driver": "580", "cuda": "13.0", "git_commit": "abc"}
    document = {"environment": environment, "started": "2026-01-02T03:04:05Z"}
    (run / "result.json").write_text(json.dumps(document))
    found = {
        "again_1": {"pairs": [pair("q8", 8192, "SAME", -0.002), pair("fp16", 8192, "AMBIGUOUS", 0.0125)]},
        "slowed": {"pairs": [pair("fp32", 32768, "SLOWER", 0.0322)]},
    }
    verdicts.write(tmp_path, tmp_path / "runs", found, ["something"])
    page = (tmp_path / "README.md").read_text()
    assert "The same code 1 times against the first: 1 SAME, 1 AMBIGUOUS; largest change 1.25%." in page
    assert "| fp32 | 32768 | +3.22% |  | SLOWER |" in page
    assert "not as it should be: something" in page
    assert len((tmp_path / "verdicts.csv").read_text().splitlines()) == 4
