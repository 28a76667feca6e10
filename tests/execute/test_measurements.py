"""``estimate.measured``: what a user gives, what comes of it, and what is refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from runner.cli import main
from runner.result import document
from runner.result.model import Cause, Diagnosis, Result, Status
from tests.execute.test_sweep import results

DATA = Path(__file__).resolve().parents[1] / "data" / "measured_llama_3_1_70b_fp8_h200.csv"
PLAIN = ("kernel=estimate", "tracking=none", "gpu=h200_sxm")
LOAD = (
    "model=llama3_1_70b", "estimate.weights=float8", "estimate.kv=fp8", "estimate.tensor=2", "shape.batch=4",
    "shape.prompt=1024", "shape.output=1024",
)  # fmt: skip


def measured_run(folder: Path, status: Status = Status.PASSED, **metrics: float) -> Path:
    cause = Cause("launch_gaps", "launches", "sure", ["The GPU was idle for 40 % of the time.", "More."])
    made = Result("1", "command", "bench", status, metrics=metrics, diagnosis=Diagnosis("launches", "sure", [cause]))
    return document.write(made, folder)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_load_of_a_csv_stands_beside_the_estimate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PLAIN, *LOAD, f"estimate.measured={DATA}", "estimate.engine=vllm"]) == 0
    assert "Theory beside measurement" in capsys.readouterr().out
    (result,) = results(tmp_path)
    assert result["metrics"]["measured_tpot_ms"] == pytest.approx(13.914, abs=1e-3)
    assert result["metrics"]["measured_ttft_ms"] == pytest.approx(121.29, abs=1e-2)
    assert result["metrics"]["tpot_over_theory"] == pytest.approx(1.824, abs=1e-3)
    assert result["params"]["engine"] == "vllm"
    (folder,) = (path.parent for path in tmp_path.rglob("result.json"))
    assert "theory_vs_measured.csv" in result["artifacts"]
    rows = list(csv.DictReader((folder / "theory_vs_measured.csv").open()))
    assert [row["figure"] for row in rows] == ["ttft_ms", "tpot_ms", "tokens_per_s"]
    page = (folder / "report.md").read_text()
    assert "| figure | theoretical | measured | ratio | main reason |" in page
    assert "fixed time of the layers 5.62 ms" in page


def test_every_engine_that_has_the_load_is_compared(tmp_path: Path) -> None:
    assert main([*PLAIN, *LOAD, f"estimate.measured={DATA}"]) == 0
    (result,) = results(tmp_path)
    assert {"measured_tpot_ms_vllm", "measured_tpot_ms_trtllm"} <= set(result["metrics"])


def test_a_sweep_is_drawn(tmp_path: Path) -> None:
    assert main([*PLAIN, *LOAD[:-3], f"estimate.measured={DATA}", "shape=serving", "shape.prompt=1024",
                 "shape.output=1024", "shape.batch=4,8", "estimate.engine=vllm", "-m"]) == 0  # fmt: skip
    (plot,) = tmp_path.rglob("report/theory_vs_measured.png")
    assert plot.stat().st_size > 1000


@pytest.mark.parametrize("given", ["job/bench/result.json", "job/bench", "job"])
def test_a_run_stands_beside_it_with_its_own_cause(tmp_path: Path, given: str) -> None:
    measured_run(tmp_path / "job" / "bench", tpot_ms=20.0, tokens_per_s=200.0, time_us=5.0)
    assert main([*PLAIN, *LOAD, f"estimate.measured={given}"]) == 0
    (result,) = (one for one in results(tmp_path) if one["kernel"] == "estimate")
    metrics = result["metrics"]
    assert metrics["tpot_over_theory"] == pytest.approx(20.0 / metrics["tpot_ms"])
    assert metrics["tokens_per_s_over_theory"] == pytest.approx(200.0 / metrics["tokens_per_s"])
    assert "measured_ttft_ms" not in metrics
    (file,) = tmp_path.rglob("theory_vs_measured.csv")
    rows = list(csv.DictReader(file.open()))
    assert {row["main_reason"] for row in rows} == {"launches (sure): The GPU was idle for 40 % of the time"}
    assert {(row["measured_by"], row["source"]) for row in rows} == {("bench", given)}


def test_without_a_measurement_there_is_no_word_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PLAIN, *LOAD]) == 0
    assert "beside measurement" not in capsys.readouterr().out
    (result,) = results(tmp_path)
    assert not {"measured", "engine"} & set(result["params"])
    assert not [name for name in result["metrics"] if name.startswith("measured_")]
    assert not list(tmp_path.rglob("theory_vs_measured*"))


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that is said."""
    assert main([*PLAIN, *LOAD, *arguments]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("error: ")
    return line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("estimate.measured=none.csv",), "estimate.measured=none.csv: no such file; needed is a result.json"),
        (("estimate.measured=none",), "estimate.measured=none: no such file"),
        (("estimate.measured=empty",), "estimate.measured=empty: holds no result.json"),
        ((f"estimate.measured={DATA}", "shape.batch=5"), "batch 5, tensor 2; the nearest of its 126 has prompt 1024"),
        ((f"estimate.measured={DATA}", "estimate.weights=bf16"), "no row for model llama3_1_70b, gpu h200_sxm, weights "
         "bfloat16, prompt 1024, output 1024, batch 4, tensor 2; it has meta-llama/Llama-3.1-70B with fp8 weights on "),
        ((f"estimate.measured={DATA}", "model=llama3_8b"), "no row for model llama3_8b"),
        ((f"estimate.measured={DATA}", "gpu=h100_sxm"), "no row for model llama3_1_70b, gpu h100_sxm"),
        ((f"estimate.measured={DATA}", "estimate.engine=vlm"), "estimate.engine=vlm: not in"),
        ((f"estimate.measured={DATA}", "estimate.speculative=3"), "its rows are of plain serving"),
        ((f"estimate.measured={DATA}", "estimate.reserve_gb=200"), "not one request fits by this estimate"),
        (("estimate.engine=vllm",), "estimate.engine=vllm: chooses rows of estimate.measured"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_one_clear_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "empty").mkdir()
    assert said in refused(capsys, *arguments)
    assert not list(tmp_path.rglob("result.json"))


def test_a_run_that_says_nothing_of_it_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measured_run(tmp_path / "a", time_us=5.0, ttft_ms=0.0)
    assert "has no metric ttft_ms, tpot_ms or tokens_per_s above 0; its metrics are time_us, ttft_ms" in refused(
        capsys, "estimate.measured=a"
    ).replace("ttft_ms, time_us", "time_us, ttft_ms")
    measured_run(tmp_path / "b", Status.RUNTIME_ERROR, tpot_ms=5.0)
    assert "estimate.measured=b: the run ended as RUNTIME_ERROR" in refused(capsys, "estimate.measured=b")
    measured_run(tmp_path / "c", tpot_ms=5.0, fits=1.0)
    assert "estimate.measured=c: is an estimate" in refused(capsys, "estimate.measured=c")
    measured_run(tmp_path / "d" / "one", tpot_ms=5.0)
    measured_run(tmp_path / "d" / "two", tpot_ms=5.0)
    assert "holds several results; name one of one, two" in refused(capsys, "estimate.measured=d")
    assert "estimate.engine=vllm: chooses rows of a CSV" in refused(
        capsys, "estimate.measured=d/one", "estimate.engine=vllm"
    )
    (tmp_path / "e.json").write_text(json.dumps({"id": 1}))
    assert "estimate.measured=e.json: cannot read e.json" in refused(capsys, "estimate.measured=e.json")


def test_a_file_that_is_no_measurement_and_a_load_measured_twice_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    assert "estimate.measured=x.csv: has no column backend" in refused(capsys, "estimate.measured=x.csv")
    lines = DATA.read_text().splitlines()
    (tmp_path / "twice.csv").write_text("\n".join([*lines, *lines[1:]]) + "\n")
    assert "estimate.measured=twice.csv: has several rows of trtllm" in refused(capsys, "estimate.measured=twice.csv")
