"""``kernel=estimate`` through whole commands: what a user types, what is printed, what lies on disk."""

from __future__ import annotations

import csv
import json
import math
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.cli import main
from runner.config.schema import Config, Gpu, Kernel
from runner.execute import targets
from runner.execute.estimating import make_estimate, outcome
from runner.execute.targets import Targets, known_gpus, paper_gpu
from runner.plan.errors import PlanError
from runner.worker.client import WorkerKey
from tests.execute.test_sweep import environment, results
from tests.execute.test_sweep import run as run_command
from tests.execute.test_targets import STATE
from tests.kernels.plans import ROOT
from tests.kernels.plans import config as composed

PLAIN = ("kernel=estimate", "tracking=none")
FILED = (
    "params_total", "params_active", "weight_bytes", "kv_bytes_per_token", "kv_cache_bytes", "memory_bytes", "fits",
    "max_batch", "flops_prefill", "flops_decode_step", "bytes_prefill", "bytes_decode_step", "intensity_prefill",
    "intensity_decode", "ridge_intensity", "ttft_ms", "tpot_ms", "tokens_per_s",
)  # fmt: skip
"""Metric names that users rely on."""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_command(folder, *PLAIN, *arguments)


def test_one_estimate_is_a_page_with_its_files(tmp_path: Path) -> None:
    done = run(tmp_path, "model=llama3_8b", "gpu=h100_sxm")
    assert done.returncode == 0, done.stdout + done.stderr
    for words in ("llama3_8b on h100_sxm", "8,030,261,248", "It fits", "Operators: decode", "What a change would buy"):
        assert words in done.stdout
    (result,) = results(tmp_path)
    assert (result["status"], result["variant"], result["gpu"]) == ("PASSED", "bfloat16", "h100_sxm")
    assert set(FILED) <= set(result["metrics"])
    assert result["metrics"]["params_total"] == 8_030_261_248
    assert (result["params"]["bound_prefill"], result["params"]["bound_decode"]) == ("compute", "memory")
    assert "time_us" not in result["metrics"] and result["samples"] == []
    (folder,) = (path.parent for path in tmp_path.rglob("result.json"))
    assert {"report.md", "operators.csv", "memory_over_context.png", "tokens_over_batch.png"} == set(
        result["artifacts"]
    )
    assert all((folder / name).stat().st_size > 200 for name in result["artifacts"])
    rows = list(csv.DictReader((folder / "operators.csv").open()))
    for phase, suffix in (("prefill", "prefill"), ("decode", "decode_step")):
        told = sum(float(row["flops"]) for row in rows if row["phase"] == phase)
        assert told == pytest.approx(result["metrics"][f"flops_{suffix}"])


def test_a_sweep_is_a_table_and_is_filed(tmp_path: Path, new_store: str) -> None:
    done = run_command(
        tmp_path, "kernel=estimate", "model=llama3_8b", "gpu=h100_sxm", "shape.batch=1,32", "estimate.ttft_ms=100",
        f"tracking.uri={new_store}", "-m",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    header = [line for line in done.stdout.splitlines() if "TPOT" in line]
    assert header and "tokens/s" in header[0] and "rank" not in header[0]
    assert [result["metrics"]["meets_targets"] for result in results(tmp_path)] == [1.0, 0.0]
    with sqlite3.connect(tmp_path / "mlflow.db") as database:
        filed = {key for (key,) in database.execute("select distinct key from latest_metrics")}
        bounds = database.execute("select distinct value from params where key = 'bound_decode'").fetchall()
    assert set(FILED) <= filed
    assert bounds == [("memory",)]


def test_gpus_are_ranked_for_a_load(tmp_path: Path) -> None:
    gpus = "gpu=a100_80_sxm,h200_sxm"
    study = ("experiments=gpu_selection", "model=llama3_70b", "shape.batch=4", "estimate.tensor=1,2")
    done = run_command(tmp_path, *study, gpus, "tracking=none", "-m")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    ranked = [words[:6] for words in lines if len(words) > 6 and words[0].isdigit()]
    assert ranked[0] == ["1", "bfloat16", "h200_sxm", "2", "yes", "yes"]
    assert {tuple(words[2:5]) for words in ranked[-2:]} >= {("a100_80_sxm", "1", "no")}
    assert [words[0] for words in ranked] == ["1", "2", "3", "4"]


def test_a_dry_run_prints_the_page_and_imports_no_mlflow(tmp_path: Path) -> None:
    code = (
        "import sys; from runner.cli import main; code = main(sys.argv[1:]); "
        "sys.exit(99 if {'mlflow', 'pycuda', 'matplotlib'} & set(sys.modules) else code)"
    )
    line = [sys.executable, "-c", code, "kernel=estimate", "gpu=l4", "dry_run=true"]
    done = subprocess.run(line, cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "llama3_8b on l4" in done.stdout
    assert not list(tmp_path.rglob("result.json"))


def test_a_config_json_takes_the_place_of_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "hidden_size": 64,
        "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 1000,
        "tie_word_embeddings": False,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(said))
    monkeypatch.chdir(tmp_path)
    assert main([*PLAIN, "gpu=l4", "model.config_json=config.json"]) == 0
    (result,) = results(tmp_path)
    # two tables, the last norm; each layer: Q and O, K and V, gate, up and down, two norms
    assert result["metrics"]["params_total"] == 2 * 64_000 + 64 + 2 * (2 * 4096 + 2 * 2048 + 3 * 8192 + 128)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("gpu=host",), "gpu=host: an estimate needs a GPU's datasheet; name the GPU to estimate for: a10, "),
        (("gpu=l4", "profiler=nsys"), "profiler=nsys: kernel=estimate runs nothing that could be profiled"),
        (("gpu=l4", "estimate.weights=int9"), "estimate.weights: precision 'int9'"),
        (("gpu=l4", "model.config_json=none.json"), "none.json"),
        (("gpu=l4", "estimate.efficiency=none.yaml"), "none.yaml"),
        (("gpu=l4", "estimate.tensor=3"), "3"),
    ],
)
def test_bad_input_is_one_clear_error(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*PLAIN, *arguments]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("error: ") and said in line


def config(gpu: Gpu) -> Config:
    return Config(kernel=Kernel(name="estimate", kind="estimate"), gpu=gpu)


def no_worker(key: WorkerKey) -> list[Any]:
    raise AssertionError("an estimate asks no device")


def test_a_named_gpu_need_not_be_here() -> None:
    target, infos = Targets(no_worker).of(config(known_gpus()["b200"]))
    assert (target.name, infos) == ("b200", ())


def test_auto_is_the_gpu_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    auto = Gpu(name="auto", backend="auto", price_per_hour=2.0)
    monkeypatch.setattr(targets, "detect", lambda: [STATE])
    found = paper_gpu(auto)
    assert (found.name, found.memory_mib, found.price_per_hour) == ("h200_sxm", STATE.memory_mib, 2.0)
    monkeypatch.setattr(targets, "detect", lambda: [])
    with pytest.raises(PlanError, match=r"gpu=auto: no NVIDIA GPU found here; name the GPU to estimate for: a10, "):
        paper_gpu(auto)


def test_a_gpu_without_figures_is_refused() -> None:
    with pytest.raises(PlanError, match=r"gpu\.bandwidth_gbps=0\.0: an estimate needs the datasheet's figure"):
        paper_gpu(Gpu(name="mine", backend="cuda", tflops={"bfloat16": 1.0}))


@pytest.mark.parametrize(
    ("figures", "message"),
    [
        ({"bandwidth_gbps": -1.0}, "gpu.bandwidth_gbps=-1.0: must be at least 0"),
        ({"bandwidth_gbps": 1e-300}, "gpu.bandwidth_gbps=1e-300: must be at least 0.001"),
        ({"tflops": {"bfloat16": math.inf}}, "gpu.tflops.bfloat16=inf: must be at least 0 and at most"),
        ({"memory_gb": math.nan}, "gpu.memory_gb=nan: must be at least 0 and at most"),
        ({"memory_mib": 10**400}, "gpu.memory_mib=1000"),
        ({"tdp_w": -1.0}, "gpu.tdp_w=-1.0: must be at least 0"),
        ({"nvlink_gbps": -1.0}, "gpu.nvlink_gbps=-1.0: must be at least 0"),
        ({"memory_gb": 0.0}, "gpu.memory_gb=0.0: an estimate needs the memory"),
    ],
)
def test_a_gpu_with_impossible_figures_is_refused(figures: dict[str, Any], message: str) -> None:
    sound = Gpu(name="mine", backend="cuda", bandwidth_gbps=900.0, memory_gb=24.0, tflops={"bfloat16": 100.0})
    assert paper_gpu(sound) is sound
    with pytest.raises(PlanError) as refused:
        paper_gpu(replace(sound, **figures))
    assert str(refused.value).startswith(message)


def test_the_context_of_the_shape_is_said_to_be_unused() -> None:
    chosen = composed("estimate")
    chosen.gpu = known_gpus()["l4"]
    said = outcome(chosen, make_estimate(chosen, ["shape.context=8192"])).warnings
    assert any(line.startswith("shape.context is not used") for line in said)
    assert not any("shape.context" in line for line in outcome(chosen, make_estimate(chosen)).warnings)


def test_what_was_given_and_does_not_count_is_said() -> None:
    chosen = composed("estimate")
    chosen.gpu = known_gpus()["l4"]
    given = ["estimate.layer_us=30", "+model.layers=48"]
    constant = "estimate.layer_us is not used: it counts with estimate.efficiency=model only"
    assert constant in make_estimate(chosen, given).notes
    chosen.estimate.efficiency = "model"
    assert make_estimate(chosen, given).notes == make_estimate(chosen).notes
    chosen.model.config_json = str(ROOT / "tests/data/hf_configs/Qwen3-8B.json")
    figure = "model.layers is not used: model.config_json gives every figure of the model"
    assert figure in make_estimate(chosen, given).notes


def test_a_load_that_exceeds_the_kv_space_waits() -> None:
    chosen = composed("estimate")
    chosen.gpu = known_gpus()["l4"]
    chosen.estimate.efficiency = "model"
    chosen.shape.prompt, chosen.shape.output = 1024, 1024
    few = make_estimate(chosen).metrics
    assert few["served_waiting_ms"] == 0
    chosen.shape.batch = 2 * int(few["max_batch"])
    many = make_estimate(chosen).metrics
    assert many["served_ttft_ms"] > many["served_waiting_ms"] > 0
