"""``benchmarks/theory_vs_measured.py``: the page that it writes is that of the data and constants in the repository."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.benchmark_scripts import load

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "tests" / "data" / "measured_llama_3_1_70b_fp8_h200.csv"
FOLDER = ROOT / "benchmarks" / "calibration_h200"


benchmark = load("theory_vs_measured")


def test_the_loads_of_few_requests_are_those_of_the_page_that_is_kept(tmp_path: Path) -> None:
    head, *rows = DATA.read_text(encoding="utf-8").splitlines()
    few = [row for row in rows if "agg,1024,1024,fp8,fp8,4," in row]
    assert len(few) == 8
    data, out = tmp_path / "few.csv", tmp_path / "out"
    data.write_text("\n".join([head, *few]) + "\n", encoding="utf-8")
    out.mkdir()
    for path in FOLDER.glob("*.yaml"):
        shutil.copy(path, out)
    assert benchmark.main(["--data", str(data), "--out", str(out)]) == 0
    assert (out / "theory_vs_measured.png").stat().st_size > 1000
    kept, made = ((folder / "theory_vs_measured.md").read_text(encoding="utf-8") for folder in (FOLDER, out))
    start = "## 4 requests in flight"
    assert made.partition(start)[2] == kept.partition(start)[2]
    # measured TPOT as published: engine and TP, ms
    for words in (
        "vllm | 1 | TPOT | 21.5",
        "vllm | 8 | TPOT | 7.93",
        "trtllm | 1 | TPOT | 20.1",
        "trtllm | 8 | TPOT | 6.26",
    ):
        assert f"| {words} |" in made


def test_each_level_is_closer_than_the_one_before() -> None:
    text = (FOLDER / "theory_vs_measured.md").read_text(encoding="utf-8")
    rows = re.findall(r"\| (\w+) \| (\w+) \| \d+ \| ([\d.]+) % \| ([\d.]+) % \| ([\d.]+) % \|", text)
    assert [(engine, level) for engine, level, *_ in rows] == [
        (engine, level) for engine in ("trtllm", "vllm") for level in benchmark.LEVELS
    ]
    for engine in ("trtllm", "vllm"):
        tpot = [float(row[3]) for row in rows if row[0] == engine]
        assert tpot == sorted(tpot, reverse=True) and tpot[-1] < 10 and tpot[0] > 40


def test_constants_of_no_engine_in_the_data_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.main(["--data", str(DATA), "--out", str(tmp_path)]) == 2
    assert "holds constants of no engine" in capsys.readouterr().err
