"""The cached ceilings of a device."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from runner.backend import nvml
from runner.backend.base import DeviceInfo
from runner.cli import main
from runner.config.points import Point
from runner.execute import ceilings, planning
from runner.execute.planning import Experiment
from runner.plan.model import Variant
from runner.result.metrics import Ceilings
from runner.result.model import Result, Status
from runner.worker.client import WorkerPool
from tests.execute.test_sweep import results
from tests.kernels.plans import H200, HOST, config, plan

INFO = DeviceInfo(0, "NVIDIA H200", "GPU-1/2", "cuda", "sm_90a", 132, 60 << 20, 1, 3, 1, driver="580.1")
FOUND = Ceilings(4250.0, 4380.0, 4400.0, {"float32": 64.0, "float16": 950.0})
HOPPER = plan("ceilings").variants
MEMORY = {"copy": {"gbps": 1.0}, "read": {"gbps": 2.0}, "write": {"gbps": 3.0}}


def figures(**tflops: float) -> dict[str, dict[str, float]]:
    return {**MEMORY, **{name: {"gbps": 9.0, "tflops": rate} for name, rate in tflops.items()}}


def test_what_was_saved_is_loaded_for_the_same_device_and_driver_only(tmp_path: Path) -> None:
    assert ceilings.load(INFO, tmp_path) is None
    ceilings.save(INFO, tmp_path, FOUND)
    assert ceilings.load(INFO, tmp_path) == FOUND
    assert ceilings.load(replace(INFO, driver="581.0"), tmp_path) is None
    assert ceilings.load(replace(INFO, uuid="GPU-3"), tmp_path) is None


def test_other_limits_of_clocks_and_power_are_another_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"max_sm_clock_mhz": 1980, "target_sm_clock_mhz": 1980, "power_limit_w": 700}
    monkeypatch.setattr(nvml.Gpu, "limits", lambda gpu: limits)
    ceilings.save(INFO, tmp_path, FOUND)
    assert ceilings.load(INFO, tmp_path) == FOUND
    for name, value in (("target_sm_clock_mhz", 1410), ("power_limit_w", 500)):
        monkeypatch.setattr(nvml.Gpu, "limits", lambda gpu, name=name, value=value: {**limits, name: value})
        assert ceilings.load(INFO, tmp_path) is None, name


def test_what_other_code_measured_is_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ceilings.save(INFO, tmp_path, FOUND)
    monkeypatch.setattr(ceilings, "code", lambda: "another")
    assert ceilings.load(INFO, tmp_path) is None


@pytest.mark.parametrize("text", ["{", "[]", '{"copy_gbps": 4250.0, "read_gbps": 4380.0}', '{"code": 1}'])
def test_a_damaged_or_older_file_is_measured_again(tmp_path: Path, text: str) -> None:
    ceilings.save(INFO, tmp_path, FOUND)
    ceilings.cache_file(INFO, tmp_path).write_text(text)
    assert ceilings.load(INFO, tmp_path) is None


def test_a_file_that_lacks_a_figure_is_measured_again(tmp_path: Path) -> None:
    for missing in ("write_gbps", "tflops"):
        ceilings.save(INFO, tmp_path, FOUND)
        path = ceilings.cache_file(INFO, tmp_path)
        kept = json.loads(path.read_text())
        del kept["ceilings"][missing]
        path.write_text(json.dumps(kept))
        assert ceilings.load(INFO, tmp_path) is None, missing


def test_a_cache_that_cannot_be_written_costs_only_the_next_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RUNNER_CACHE", str(tmp_path / "file" / "cache"))
    kept = ceilings.DeviceCeilings(WorkerPool())
    experiment = Experiment(Point(config("ceilings"), (), tmp_path / "job"), devices=(INFO,))
    assert kept._save(experiment, (), MEMORY) == Ceilings(1.0, 2.0, 3.0)
    assert ceilings.load(INFO, tmp_path / "file" / "cache") is None


def test_all_bandwidths_are_needed() -> None:
    for name in MEMORY:
        assert ceilings.from_figures((), {one: rate for one, rate in MEMORY.items() if one != name}) is None
    assert ceilings.from_figures((), MEMORY) == Ceilings(1.0, 2.0, 3.0)


def test_the_best_instruction_is_the_ceiling_of_its_type() -> None:
    rates = {"fma_fp32": 64.0, "mma_fp16": 610.0, "wgmma_fp16": 950.0, "mma_bf16": 620.0, "wgmma_bf16": 600.0}
    found = ceilings.from_figures(HOPPER, figures(**rates, wgmma_fp8=1900.0))
    assert found is not None and (found.copy_gbps, found.read_gbps, found.write_gbps) == (1.0, 2.0, 3.0)
    assert found.tflops == {"float32": 64.0, "float16": 950.0, "bfloat16": 620.0, "float8": 1900.0}


@pytest.mark.parametrize(
    ("variants", "rates", "kinds"),
    [
        (plan("ceilings", target=HOST).variants, {"fma_fp32": 0.2}, {"float32"}),
        (
            HOPPER,
            {"fma_fp32": 64.0, "mma_fp16": 610.0, "mma_bf16": 610.0, "wgmma_bf16": 950.0},
            {"float32", "bfloat16"},
        ),
    ],
    ids=["skipped", "failed"],
)
def test_a_type_that_was_not_measured_in_full_is_absent(
    variants: tuple[Variant, ...], rates: Mapping[str, float], kinds: set[str]
) -> None:
    found = ceilings.from_figures(variants, figures(**rates))
    assert found is not None and set(found.tflops) == kinds


def test_they_are_measured_and_kept_and_a_variant_is_held_against_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ceilings, "cache_dir", lambda: tmp_path / "cache")
    chosen = ["kernel=profiling_ranges", "variants=[saxpy]", "measure.fixed=1", "scale=smoke"]
    assert main([*chosen, "gpu=host", "tracking=none"]) == 0
    (made,) = results(tmp_path)
    found, known = made["metrics"], made["environment"]["ceilings"]
    (file,) = (tmp_path / "cache" / "ceilings").glob("*.json")
    assert json.loads(file.read_text())["ceilings"] == known
    assert set(known["tflops"]) == {"float32"} and min(known[f"{name}_gbps"] for name in MEMORY) > 0
    assert found["pct_ceiling_bandwidth"] == pytest.approx(100 * found["gbps"] / known["copy_gbps"])
    assert found["pct_ceiling_flops"] == pytest.approx(100 * found["tflops"] / known["tflops"]["float32"])


@pytest.mark.parametrize(
    ("key", "value", "kept"),
    [
        ("warmup", 1, True),
        ("modes", ["hot", "cold"], True),
        ("fixed", 50, True),
        ("lock_clocks", 1200, False),
        ("modes", ["hot"], False),
        ("hide_latency", False, False),
        ("fixed", 1, False),
    ],
)
def test_what_was_measured_in_another_way_is_nobodys_ceiling(
    key: str, value: object, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ceilings, "cache_dir", lambda: tmp_path)
    experiment = Experiment(Point(config("ceilings"), (), tmp_path / "job"), devices=(INFO,))
    setattr(experiment.config.measure, key, value)
    planning.plan(experiment, H200)
    ceilings.DeviceCeilings(WorkerPool()).keep(experiment, made())
    assert (ceilings.load(INFO, tmp_path) is not None) == kept


def made() -> list[Result]:
    names = [*MEMORY, "fma_fp32"]
    return [Result("id", "ceilings", name, Status.PASSED, metrics={"gbps": 1.0, "tflops": 2.0}) for name in names]


def test_what_was_measured_under_variables_is_a_ceiling_under_these_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ceilings, "cache_dir", lambda: tmp_path)
    cpu = replace(INFO, backend="host")
    experiment = Experiment(Point(config("ceilings"), (), tmp_path / "job"), devices=(cpu,))
    experiment.config.environment = {"OMP_NUM_THREADS": "1"}
    planning.plan(experiment, HOST)
    known = ceilings.DeviceCeilings(WorkerPool())
    known.keep(experiment, made())
    assert ceilings.load(cpu, tmp_path) is None
    known._save(experiment, (), MEMORY)
    assert ceilings.load(cpu, tmp_path) is None
    experiment.plan = plan("kv_quant", target=HOST)
    assert known.of(experiment, pytest.fail) == Ceilings(1.0, 2.0, 3.0)
    experiment.config.environment = {}
    ceilings.save(cpu, tmp_path, FOUND)
    assert known.of(experiment, pytest.fail) == FOUND
