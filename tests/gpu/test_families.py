"""Every family on a real GPU: right results, plausible rates."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kernels.plans import FAMILIES, config, several

ROOT = Path(__file__).resolve().parents[2]
USER = ROOT / "tests" / "families"

SMALLER = {
    "mini_llm": ("kernel.params.L=1", "kernel.params.prompt=5", "kernel.params.steps=2"),
    "mini_llm_quality": ("kernel.params.L=4",),
    "mini_llm_serve": (
        "model=qwen2_5_0_5b",
        "kernel.params.L=2",
        "kernel.params.requests=6",
        "kernel.params.rate=0",
        "kernel.params.prompt=24",
        "kernel.params.prompt_low=8",
        "kernel.params.steps=6",
        "kernel.params.shared=16",
    ),
    "mini_llm_spec": ("kernel.params.L=2",),
    "layer_ops": ("kernel.params.B=17", "kernel.params.prompt=5"),
    "quant_decode": ("kernel.params.group=128",),
}
"""Where the reference of the default size takes more than minutes, or a variant would be left out."""
LEFT_OUT = "needs capability"
"""Of a kernel for instructions that this GPU lacks, such as those of the ceilings."""

pytestmark = pytest.mark.gpu


def run(folder: Path, *arguments: str) -> tuple[int, str, list[dict[str, Any]]]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    line = [sys.executable, "-m", "runner", *arguments]
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*/**/result.json"))]
    return done.returncode, done.stdout + done.stderr, found


@pytest.mark.parametrize("shape", ["smoke", "decode"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_variant_passes(tmp_path: Path, family: str, shape: str) -> None:
    if several(config(family)):
        pytest.skip("is of several GPUs: test_multi_gpu.py")
    chosen = (f"kernel={family}", f"shape={shape}", *SMALLER.get(family, ()))
    code, output, results = run(tmp_path, *chosen, "gpu=auto", "measure=quick", "tracking=none")
    assert code == 0, output
    assert results
    for result in results:
        assert result["backend"] == "cuda", result["environment"]
        if result["status"] == "SKIPPED" and LEFT_OUT in result["message"]:
            continue
        assert result["status"] == "PASSED", result["message"]
        assert result["quality"] != "ABOVE_PEAK", result["warnings"]
        assert result["metrics"]["time_us"] > 0


@pytest.mark.parametrize(
    "lines",
    [
        ("model=llama3_2_1b", "kernel.params.weights=w8a16"),
        (
            "model=llama3_2_1b",
            "kernel.params.weights=w8a16",
            "kernel.params.h=264",
            "kernel.params.I=520",
            "kernel.params.group=256",
            "kernel.params.gemv=streamed",
        ),
        ("model=qwen2_5_0_5b", "kernel.params.weights=w8a16", "kernel.params.gemv=streamed"),
        ("model=qwen2_5_0_5b", "kernel.params.weights=fp32", "kernel.params.kv=fp32"),
        ("model=qwen2_5_0_5b", "kernel.params.page=16", "kernel.params.kv=int8"),
        ("model=llama3_2_1b", "kernel.params.page=16", "kernel.params.kv=fp8"),
        ("model=gpt2_small", "kernel.params.weights=bf16"),
        ("model=gpt2_small", "kernel.params.weights=w8a16"),
        ("model=gpt2_small", "kernel.params.weights=w8a16", "kernel.params.gemv=streamed"),
    ],
    ids=" ".join,
)
def test_decoders_pass_in_other_ways(tmp_path: Path, lines: tuple[str, ...]) -> None:
    sizes = ("kernel.params.L=2", "kernel.params.prompt=20", "kernel.params.steps=4")
    code, output, results = run(tmp_path, "kernel=mini_llm", *lines, *sizes, "measure=quick", "tracking=none")
    assert code == 0, output
    assert {result["status"] for result in results} == {"PASSED"}


def test_a_draft_that_is_the_model_itself_is_right(tmp_path: Path) -> None:
    lines = ("model=qwen2_5_0_5b", "kernel.params.draft_model=qwen2_5_0_5b", "kernel.params.steps=12")
    code, output, results = run(tmp_path, "kernel=mini_llm_spec", *lines, "measure=quick", "tracking=none")
    assert code == 0, output
    (rate,) = (result["metrics"]["acceptance_rate"] for result in results if result["variant"] == "spec")
    assert rate > 0.8, "but where rounding decides between two tokens"


def test_faults_in_a_sweep_cost_only_themselves(tmp_path: Path) -> None:
    faults = "kernel.params.fault=0,1,10,2,11,3,12,4,13,5"
    code, output, results = run(
        tmp_path,
        "--config-dir",
        str(USER),
        "kernel=faulty",
        faults,
        "gpu=auto",
        "measure=quick",
        "tracking=none",
        "timeout_s=10",
        "-m",
    )
    assert code == 1, output
    by_fault = {result["config"]["kernel"]["params"]["fault"]: result["status"] for result in results}
    assert by_fault == {
        0: "PASSED",
        1: "RUNTIME_ERROR",
        10: "PASSED",
        2: "TIMEOUT",
        11: "PASSED",
        3: "INCORRECT",
        12: "PASSED",
        4: "COMPILE_ERROR",
        13: "PASSED",
        5: "OUT_OF_MEMORY",
    }


def test_two_gpus_exchange_and_wait_for_each_other(tmp_path: Path) -> None:
    listing = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
    if listing.count("UUID: GPU") < 2:
        pytest.skip("needs two GPUs")
    arguments = ("kernel=exchange", "devices=[0,1]", "gpu=auto", "measure=quick", "tracking=none")
    code, output, results = run(tmp_path, "--config-dir", str(USER), *arguments)
    assert code == 0, output
    assert [result["status"] for result in results] == ["PASSED"]
    assert len(results[0]["environment"]["devices"]) == 2
