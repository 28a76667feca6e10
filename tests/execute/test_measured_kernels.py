"""``estimate.efficiency=measured`` through whole commands: kernels are measured, filed, found again and added up."""

from __future__ import annotations

import csv
import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from runner.cli import main
from runner.execute import kernel_sets, kernel_times, targets
from tests.execute.test_sweep import FAMILIES, results

FAMILY = "toy_ops"
"""Stands for ``layer_ops`` where its kernels do not matter: the same letters, variants of the same kind."""
MODEL = (
    "model=qwen2_5_0_5b", "model.layers=2", "model.hidden=64", "model.heads=4", "model.kv_heads=2", "model.head_dim=16",
    "model.intermediate=128", "model.vocab=256",
)  # fmt: skip
LOAD = ("shape.batch=2", "shape.prompt=7", "shape.output=3", "estimate.kv=float32")
PLAIN = (
    "--config-dir", str(FAMILIES), "kernel=estimate", "measure=quick", "measure.host.max_time_s=0.1", *MODEL, *LOAD,
)  # fmt: skip
MEASURED = (*PLAIN, "estimate.efficiency=measured", "gpu=host")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def real() -> None:
    """For a test of ``layer_ops`` itself."""


@pytest.fixture(autouse=True)
def stand_in(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "real" in request.fixturenames:
        return
    for module in (kernel_sets, kernel_times):
        monkeypatch.setattr(module, "FAMILY", FAMILY)


def by_kernel(folder: Path, kernel: str) -> list[dict[str, Any]]:
    return [one for one in results(folder) if one["kernel"] == kernel]


def added_up(found: list[dict[str, Any]], *names: str) -> float:
    """Microseconds of the named operators' calls in a graph."""
    metrics = {one["variant"]: one["metrics"] for one in found if one["status"] == "PASSED"}
    node = metrics["chain"]["time_us"] / metrics["chain"]["nodes"]
    fixed = max(0.0, metrics["empty"]["time_us"] - node)
    return sum(
        float(one["calls"] * max(node, one.get("call_us", one["time_us"]) - fixed / one.get("nodes", 1)))
        for name, one in metrics.items()
        if name.startswith(names)
    )


def test_kernels_are_measured_filed_and_found_again(
    tmp_path: Path, new_store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = f"tracking.uri={new_store}"
    assert main([*MEASURED, store]) == 0
    page = capsys.readouterr().out
    assert "qwen2_5_0_5b on host, from its measured kernels" in page
    assert "Level: measured kernels; from kernel=toy_ops in " in page
    kernels = by_kernel(tmp_path, FAMILY)
    (made,) = by_kernel(tmp_path, "estimate")
    assert {one["params"]["context"] for one in kernels} == {9} and {one["params"]["prompt"] for one in kernels} == {7}
    assert {one["variant"] for one in kernels if one["status"] == "SKIPPED"} == {"prefill_rope"}
    assert made["metrics"]["tpot_ms"] == pytest.approx(1e-3 * added_up(kernels, "decode_"))
    assert made["metrics"]["ttft_ms"] == pytest.approx(1e-3 * added_up(kernels, "prefill_", "decode_logits"))
    assert (made["params"]["level"], made["gpu"], made["backend"]) == ("measured", "host", "host")
    assert not {"served_ttft_ms", "ridge_batch"} & set(made["metrics"])
    assert "bound_decode" not in made["params"]
    with sqlite3.connect(tmp_path / "mlflow.db") as database:
        runs = {run for (run,) in database.execute("select run_uuid from params where value = ? and key = 'kernel'",
                                                   (FAMILY,))}  # fmt: skip
        told = database.execute("select value from params where key = 'kernels_from'").fetchone()[0]
    assert len(runs) == len(kernels)
    assert sum(run in told for run in runs) == 7, "the operators that count and what a launch costs, by their runs"

    assert main([*MEASURED, store]) == 0
    assert len(by_kernel(tmp_path, FAMILY)) == len(kernels), "nothing is measured twice"
    first, again = by_kernel(tmp_path, "estimate")
    assert again["metrics"]["tpot_ms"] == pytest.approx(first["metrics"]["tpot_ms"])
    (file, _) = sorted((tmp_path / "outputs").rglob("kernels.csv"))
    rows = list(csv.DictReader(file.open()))
    assert {row["level"] for row in rows} == {"measured"}
    assert all(row["source"].removeprefix("run ") in runs for row in rows)


@pytest.mark.usefixtures("real")
def test_the_kernels_of_the_decoder_are_measured_in_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny = ("model.hidden=32", "model.intermediate=64", "model.vocab=64", "shape.batch=1", "shape.prompt=3",
            "measure.host.max_time_s=0.02", "tracking=none")  # fmt: skip
    assert main([*MEASURED, *tiny]) == 0
    assert "Level: measured kernels; from kernel=layer_ops in " in capsys.readouterr().out
    kernels = by_kernel(tmp_path, "layer_ops")
    (made,) = by_kernel(tmp_path, "estimate")
    assert {(one["params"]["L"], one["params"]["layers"], one["params"]["context"]) for one in kernels} == {(2, 2, 5)}
    skipped = {one["variant"] for one in kernels if one["status"] == "SKIPPED"}
    assert skipped == {"decode_norm", "decode_activation", "prefill_norm", "prefill_activation"}
    assert {one["status"] for one in kernels} == {"SKIPPED", "PASSED"}
    calls = {one["variant"]: one["metrics"]["calls"] for one in kernels if one["status"] == "PASSED"}
    assert (calls["decode_qkv"], calls["decode_logits"], calls["chain"]) == (2, 1, 0)
    assert made["metrics"]["tpot_ms"] == pytest.approx(1e-3 * added_up(kernels, "decode_"))
    chosen = ("prefill_", "decode_logits", "decode_sampler")
    assert made["metrics"]["ttft_ms"] == pytest.approx(1e-3 * added_up(kernels, *chosen))
    assert not any("as they were measured alone" in line for line in made["warnings"])


def test_without_a_store_a_folder_of_results_serves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["--config-dir", str(FAMILIES), f"kernel={FAMILY}", "gpu=host", "measure=quick", "tracking=none", *MODEL]
    dims = ["shape.batch=2", "shape.prompt=7", "kernel.params.context=8,12", "measure.host.max_time_s=0.1"]
    assert main([*lines, *dims, "-m"]) == 0
    capsys.readouterr()
    assert main([*MEASURED, "tracking=none", "estimate.kernels=multirun"]) == 0
    (made,) = by_kernel(tmp_path, "estimate")
    assert "a step at 9 tokens is interpolated between those measured at 8 and 12" in made["warnings"]
    assert made["params"]["kernels"] == "multirun"
    assert f"kernel={FAMILY} in multirun" in made["params"]["kernels_from"]
    assert main([*MEASURED, "tracking=none", "estimate.kernels=multirun", "shape.prompt=30"]) == 2
    said = capsys.readouterr().err
    assert f"estimate.kernels=multirun: no decode step of kernel={FAMILY} for B=2" in said
    assert "there are contexts of 8, 12" in said


def test_a_sweep_shares_what_is_measured(tmp_path: Path) -> None:
    assert main([*MEASURED, "tracking=none", "estimate.memory_share=0.8,0.9", "shape.batch=1,2", "-m"]) == 0
    assert len(by_kernel(tmp_path, "estimate")) == 4
    assert len({one["experiment_id"] for one in by_kernel(tmp_path, FAMILY)}) == 2


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main([*PLAIN, "estimate.efficiency=measured", *arguments]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    return line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("gpu=h200_sxm",), "python -m runner --config-dir"),
        (("gpu=h200_sxm", "tracking=none"), "kernel=toy_ops gpu=h200_sxm measure=quick"),
        (("gpu=h200_sxm", "tracking=none"), "kernel.params.prompt=7 kernel.params.context=9"),
        (("gpu=h200_sxm", "estimate.tensor=2"), "estimate.tensor=2: must be 1 with estimate.efficiency=measured"),
        (("gpu=h200_sxm", "estimate.chunk=2"), "estimate.chunk=2: must be 0 with estimate.efficiency=measured"),
        (("gpu=h200_sxm", "model=mixtral_8x7b"), "model.experts=8: must be 0 with estimate.efficiency=measured"),
        (("gpu=h200_sxm", "model.qk_norm=true"), "model.qk_norm=True: must be false with"),
        (("gpu=h200_sxm", "estimate.weights=fp8"), "estimate.weights: with estimate.efficiency=measured float8"),
        (("gpu=h200_sxm", "estimate.kv=q4_0"), "estimate.kv: with estimate.efficiency=measured q4_0 is none"),
        (("gpu=host", "shape.prompt=5000"), "its kernels cannot be measured: kernel.params.prompt=5000: must"),
        (("gpu=host", "estimate.kernels=none"), "estimate.kernels=none: no such file; needed is a result.json"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_clear_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    monkeypatch.setattr(targets, "_auto", lambda: targets._choose([]))
    assert said in refused(capsys, *(line for line in arguments if line != "tracking=none"), "tracking=none")


def test_kernels_that_fail_fail_the_estimate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(FAMILIES, broken)
    source = broken / "cuda_src" / "toy_ops.cu"
    source.write_text(source.read_text().replace("y[i] = x[i]", "y[i] = x[i] + 1.0f"))
    given = [str(broken) if word == str(FAMILIES) else word for word in MEASURED]
    assert main([*given, "tracking=none"]) == 1
    (made,) = by_kernel(tmp_path, "estimate")
    assert made["status"] == "RUNTIME_ERROR"
    assert "its kernels could not be measured: empty ended as INCORRECT" in made["message"]


def test_a_folder_without_the_level_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PLAIN, "gpu=h200_sxm", "estimate.kernels=x"]) == 2
    assert "estimate.kernels=x: counts with estimate.efficiency=measured only" in capsys.readouterr().err


def test_a_dry_run_says_what_would_be_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*MEASURED, "tracking=none", "dry_run=true"]) == 0
    assert "first it is measured: python -m runner --config-dir" in capsys.readouterr().out
    assert not list(tmp_path.rglob("result.json"))


def test_results_of_another_device_are_not_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*MEASURED, "tracking=none"]) == 0
    for file in tmp_path.rglob("toy_ops/*/result.json"):
        document = json.loads(file.read_text())
        document["gpu"], document["backend"] = "h100_sxm", "cuda"
        file.write_text(json.dumps(document))
    assert main([*MEASURED, "tracking=none", "estimate.kernels=outputs"]) == 2
    assert f"no result of kernel={FAMILY} for B=2" in capsys.readouterr().err
