"""Weights of a file on the device: the family ``weighted`` on the host backend, in a worker and as commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf

from runner.backend.host import HostBackend
from runner.cli import main
from runner.config.schema import Kernel
from runner.plan.model import Plan
from runner.plan.planner import make_plan
from runner.plan.target import target_of
from runner.result.model import Status
from runner.weights.errors import WeightsError
from runner.worker.experiment import Experiment
from tests.execute.test_sweep import FAMILIES, QUICK, results
from tests.execute.test_sweep import run as run_command
from tests.kernels.hosted import ONCE, programs
from tests.plan.families import config
from tests.weights.models import DIMS, HIDDEN, WIDTH, buffers, tensors, write_gguf, write_safetensors
from tests.weights.test_stacked import mixed, restacked


def planned(file: str, layers: int = 2, cols: int = WIDTH) -> Plan:
    loaded: Any = OmegaConf.merge(OmegaConf.structured(Kernel), OmegaConf.load(FAMILIES / "kernel" / "weighted.yaml"))
    loaded.params = {"L": layers, "rows": HIDDEN, "cols": cols, "theta": 1e4, "eps": 1e-5, "file": file}
    loaded.derived.plain = 1
    family = OmegaConf.to_object(loaded)
    assert isinstance(family, Kernel)
    made = config(family)
    made.gpu.backend = "host"
    return make_plan(made, target_of(made.gpu), (FAMILIES / "cuda_src", FAMILIES / "references"))[0]


@pytest.mark.parametrize("layers", [1, 2])
def test_the_values_of_a_file_arrive_on_the_device(tmp_path: Path, layers: int) -> None:
    path = tmp_path / "m.gguf"
    stored = restacked(write_gguf(path, tensors(buffers()), "llama", mixed))
    plan = planned(str(path), layers)
    assert (plan.buffer("down_weight").fill.kind, plan.symbols["file"]) == ("reference", str(path))
    backend = HostBackend()
    device = backend.open(0)
    experiment = Experiment(backend, [device], plan, programs(plan), {})
    try:
        experiment.prepare()
        outcome, _ = experiment.run("plain", ONCE)
        assert (outcome.status, outcome.message) == (Status.PASSED, "")
        found = np.empty((layers, *DIMS["down_weight"][1:]), np.float32)
        stream = device.stream()
        stream.read(found, experiment._buffers["out"], 0)
        stream.synchronize()
        np.testing.assert_array_equal(found, stored["down_weight"][:layers])
        stream.close()
    finally:
        experiment.close()
        device.close()


def test_a_file_that_does_not_fit_is_the_workers_clear_error(tmp_path: Path) -> None:
    write_safetensors(tmp_path, tensors(buffers()))
    plan = planned(str(tmp_path), cols=64)
    backend = HostBackend()
    device = backend.open(0)
    experiment = Experiment(backend, [device], plan, programs(plan), {})
    try:
        with pytest.raises(WeightsError, match=r"buffer down_weight: the experiment has \[2, 256, 64\]"):
            experiment.prepare()
    finally:
        experiment.close()
        device.close()


def test_a_command_with_a_file_of_weights(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    write_gguf(tmp_path / "models" / "m.gguf", tensors(buffers()), type_of=mixed, keys={"qwen2.strange": 5})
    done = run_command(tmp_path, "kernel=weighted", "model.weights=models/m.gguf", *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = results(tmp_path)
    assert result["status"] == "PASSED"
    wanted = {"L": 2, "rows": HIDDEN, "cols": WIDTH, "theta": 1e6, "eps": 1e-6}
    assert {key: result["params"][key] for key in wanted} == wanted
    assert result["params"]["file"] == str(tmp_path / "models" / "m.gguf")
    assert (result["model"], result["config"]["model"]["heads"]) == ("m", 4)
    assert any("qwen2.strange=5 was not understood" in line for line in result["warnings"])


def test_a_sweep_over_files_and_an_architecture_alone(tmp_path: Path) -> None:
    """Relative names, in the sections that a point changes and in those that no point changes."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_safetensors(tmp_path / name, tensors(buffers()))
    done = run_command(tmp_path, "kernel=weighted", "model.weights=a,b", "kernel.params.L=1,2", *QUICK, "-m")
    assert done.returncode == 0, done.stdout + done.stderr
    found = sorted((Path(one["params"]["file"]).name, one["params"]["L"]) for one in results(tmp_path))
    assert found == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    done = run_command(
        tmp_path, "kernel=weighted", "model.config_json=a/config.json", "kernel.params.L=1,2", *QUICK, "-m"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    seeded = [one["params"] for one in results(tmp_path) if not one["params"]["file"]]
    assert [(one["rows"], one["cols"], one["theta"]) for one in seeded] == [(HIDDEN, WIDTH, 1e6)] * 2


def test_an_estimate_of_a_file_of_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_gguf(tmp_path / "m.gguf", tensors(buffers()), type_of=mixed)
    monkeypatch.chdir(tmp_path)
    assert main(["kernel=estimate", "gpu=l4", "tracking=none", "model.weights=m.gguf"]) == 0
    (result,) = results(tmp_path)
    assert result["metrics"]["params_total"] == sum(value.size for value in buffers().values())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("model.weights=none.gguf",), "none.gguf: no such file"),
        (("model.weights=~nobody-at-all/m.gguf",), "model.weights=~nobody-at-all/m.gguf: "),
        (
            ("model.weights=m.gguf", "model.config_json=x.json"),
            "model.config_json=x.json: leave it out, as model.weights=m",
        ),
        (
            ("model.weights=m.gguf", "model.layers=1"),
            "model.layers=1: leave it out, as model.weights gives every figure",
        ),
        (("model.config_json=m.gguf", "model.hidden=8"), "model.hidden=8: leave it out, as model.config_json gives"),
        (("model.weights=m.gguf", "scale=smoke", "scale.model.layers=1"), "caps the sizes of the model"),
        (
            ("model.weights=m.gguf", "kernel.params.cols=64"),
            "the experiment has [2, 256, 64], the file's model [2, 256",
        ),
        (("model.weights=short.gguf",), "short.gguf: no tensor blk.1.ffn_up.weight: a decoder of Llama's or Qwen2's"),
        (("model.weights=scaled.gguf",), "positions are scaled, which this family does not do"),
    ],
)
def test_bad_input_is_one_clear_error(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    said: str,
) -> None:
    values = tensors(buffers())
    write_gguf(tmp_path / "m.gguf", values)
    write_gguf(tmp_path / "scaled.gguf", values, keys={"qwen2.rope.scaling.type": "yarn"})
    del values["model.layers.1.mlp.up_proj.weight"]
    write_gguf(tmp_path / "short.gguf", values)
    monkeypatch.chdir(tmp_path)
    assert main(["--config-dir", str(FAMILIES), "kernel=weighted", *QUICK, *arguments]) != 0
    heard = capsys.readouterr()
    assert said in " ".join((heard.out + heard.err).replace("│", " ").split())
