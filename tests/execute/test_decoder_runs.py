"""Runs of ``kernel=mini_llm`` beside an estimate: from a folder, and from a store."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from runner.cli import main
from runner.record.location import Location, locate
from runner.record.mlflow_store import MlflowStore
from runner.result import document
from runner.result.model import Cause, Diagnosis, Result, Status
from tests.execute.test_sweep import results
from tests.record.conftest import spooled

PLAIN = ("kernel=estimate", "gpu=h200_sxm", "model=qwen2_5_0_5b", "shape.prompt=64", "shape.output=16")
KINDS = ("estimate.weights=w8a16", "estimate.kv=float32")
PARAMS = {
    "B": 1, "prompt": 64, "steps": 16, "L": 24, "h": 896, "H": 14, "KVH": 2, "D": 64, "I": 4864, "V": 151936,
    "weights": "w8a16", "group": 128, "kv": "fp32", "kernel": "mini_llm",
}  # fmt: skip
MEASURED = {
    "prefill": {"ttft_ms": 4.0, "tokens_per_s": 9.0},
    "graph": {"tpot_us": 500.0, "tokens_per_s": 2000.0},
    "eager": {"tpot_us": 1500.0, "tokens_per_s": 667.0},
}


def decoder_runs(**more: Any) -> list[Result]:
    cause = Cause("some", "launches", "sure", ["The GPU was idle for 40 % of the time."])
    params = {**PARAMS, **more.pop("params", {})}
    fields = {"gpu": "h200_sxm", "backend": "cuda", "diagnosis": Diagnosis("launches", "sure", [cause]), **more}
    return [
        Result(name, "mini_llm", name, Status.PASSED, params=params, metrics=dict(metrics), **fields)
        for name, metrics in MEASURED.items()
    ]


def written(folder: Path, **more: Any) -> None:
    for one in decoder_runs(**more):
        document.write(one, folder / one.variant)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def estimated(folder: Path) -> dict[str, Any]:
    (found,) = (one for one in results(folder) if one["kernel"] == "estimate")
    return found


def test_a_folder_of_variants_stands_beside_every_level(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path / "job")
    assert main([*PLAIN, *KINDS, "tracking=none", "estimate.measured=job"]) == 0
    assert "The ratio is measured over the level ideal roofline" in " ".join(capsys.readouterr().out.split())
    metrics = estimated(tmp_path)["metrics"]
    assert metrics["measured_ttft_ms"] == 4.0, "one variant has it"
    assert (metrics["measured_tpot_ms_graph"], metrics["measured_tpot_ms_eager"]) == (0.5, 1.5)
    assert metrics["ideal_tpot_ms"] == metrics["tpot_ms"] < metrics["model_tpot_ms"]
    assert metrics["tpot_over_theory_graph"] == pytest.approx(0.5 / metrics["tpot_ms"])
    (file,) = (tmp_path / "outputs").rglob("theory_vs_measured.csv")
    rows = list(csv.DictReader(file.open()))
    assert [(row["measured_by"], row["figure"]) for row in rows] == [
        ("eager", "tpot_ms"), ("eager", "tokens_per_s"), ("graph", "tpot_ms"), ("graph", "tokens_per_s"),
        ("prefill", "ttft_ms"),
    ]  # fmt: skip
    assert float(rows[0]["model"]) == metrics["model_tpot_ms"]
    assert rows[0]["main_reason"] == "launches (sure): The GPU was idle for 40 % of the time"


def test_one_variant_serves_too(tmp_path: Path) -> None:
    written(tmp_path / "job")
    assert main([*PLAIN, *KINDS, "tracking=none", "estimate.measured=job/graph"]) == 0
    assert estimated(tmp_path)["metrics"]["measured_tpot_ms"] == 0.5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((*KINDS, "shape.batch=2"), "was measured with B=1, and the estimate has shape.batch=2"),
        ((*KINDS, "shape.output=8"), "was measured with steps=16, and the estimate has shape.output=8"),
        (("estimate.kv=float32",), "was measured with weights=w8a16, and the estimate has estimate.weights=bf16"),
        (("estimate.weights=int8_g256_s32", "estimate.kv=fp32"), "has a group of estimate.weights=256"),
        (("estimate.weights=int8_g64_s32", "estimate.kv=fp32"), "int8_g64_s32 is none of those that kernel=mini_llm"),
        ((*KINDS, "model.layers=12"), "has model.layers=12"),
        ((*KINDS, "gpu=h100_sxm"), "was measured with gpu=h200_sxm, and the estimate has gpu=h100_sxm"),
        (("estimate.weights=fp8",), "float8 is none of those that kernel=mini_llm has"),
        ((*KINDS, "estimate.measured=store"), "estimate.measured=store: there is no store (tracking=none)"),
        ((*KINDS, "estimate.engine=vllm"), "estimate.engine=vllm: chooses rows of a CSV"),
    ],
)
def test_another_load_is_refused_by_its_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    written(tmp_path / "job")
    assert main([*PLAIN, "tracking=none", "estimate.measured=job", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_decoder_that_did_not_pass_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for one in decoder_runs():
        one.status = Status.INCORRECT
        document.write(one, tmp_path / "job" / one.variant)
    assert main([*PLAIN, *KINDS, "tracking=none", "estimate.measured=job"]) == 2
    assert "estimate.measured=job: no variant passed (eager INCORRECT, " in capsys.readouterr().err


def filed(location: Location, folder: Path) -> list[str]:
    store = MlflowStore(location)
    store.open()
    several = decoder_runs(sweep_id="s", started="2026-03-01T00:00:00.000+00:00")
    return [store.file(one, place) for one, place in zip(several, spooled(folder, several), strict=True)]


def test_runs_of_a_store_serve_by_id_and_by_load(
    tmp_path: Path, new_store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    prefill, graph, _ = filed(locate(new_store), tmp_path / "spool")
    command = [*PLAIN, *KINDS, f"tracking.uri={new_store}"]
    assert main([*command, f"estimate.measured=run:{graph}+{prefill}"]) == 0
    metrics = estimated(tmp_path)["metrics"]
    assert (metrics["measured_tpot_ms"], metrics["measured_ttft_ms"]) == (0.5, 4.0)
    (file,) = (tmp_path / "outputs").rglob("theory_vs_measured.csv")
    rows = list(csv.DictReader(file.open()))
    assert {row["source"] for row in rows} == {f"run {graph}", f"run {prefill}"}
    assert {row["main_reason"] for row in rows} == {"launches (sure)"}

    assert main([*command, "estimate.measured=store"]) == 0
    newest = [one for one in results(tmp_path) if "measured_tpot_ms_eager" in one["metrics"]]
    assert len(newest) == 1
    capsys.readouterr()
    assert main([*command, "estimate.measured=store", "shape.batch=3"]) == 2
    assert "no passed run of kernel=mini_llm with L=24 h=896" in capsys.readouterr().err
    assert main([*command, "estimate.measured=run:nothing"]) == 2
    assert "estimate.measured=run:nothing: " in capsys.readouterr().err
