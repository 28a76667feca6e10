"""The whole estimate: its metrics, labels and notes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from runner.estimate import precision, times
from runner.estimate.estimate import estimate
from runner.estimate.model import Efficiency, Estimate, Parallel, Work
from tests.estimate.machines import gpu
from tests.estimate.models import named

BF16 = precision.of("bfloat16")
FIXED = [
    "params_total",
    "params_active",
    "weight_bytes",
    "kv_bytes_per_token",
    "kv_cache_bytes",
    "memory_bytes",
    "fits",
    "max_batch",
    "flops_prefill",
    "flops_decode_step",
    "bytes_prefill",
    "bytes_decode_step",
    "intensity_prefill",
    "intensity_decode",
    "ridge_intensity",
    "ttft_ms",
    "tpot_ms",
    "tokens_per_s",
]


def made(model: str = "llama3_8b", on: str = "h200_sxm", parallel: Parallel | None = None, **more: Any) -> Estimate:
    efficiency = more.pop("efficiency", Efficiency())
    price = more.pop("price", 0.0)
    work = replace(Work(1, 1024, 256, BF16, BF16, BF16), **more)
    machine = replace(gpu(on), price_per_hour=price)
    return estimate(named(model), work, parallel or Parallel(), machine, efficiency, 2 * 10**9, 0.9)


def test_every_metric_that_is_filed() -> None:
    found = made()
    assert set(FIXED) <= set(found.metrics)
    assert found.metrics["params_total"] == 8_030_261_248
    assert found.metrics["weight_bytes"] == 2 * 8_030_261_248
    assert found.metrics["kv_bytes_per_token"] == 131_072
    assert found.metrics["kv_cache_bytes"] == 1280 * 131_072
    assert found.metrics["memory_bytes"] == found.memory.total
    assert found.metrics["fits"] == 1.0
    assert found.metrics["flops_prefill"] == found.prefill.flops
    assert found.metrics["intensity_decode"] == found.decode.flops / found.decode.bytes
    assert found.labels == {"bound_prefill": "compute", "bound_decode": "memory", "level": "ideal"}


def test_times_hang_together() -> None:
    found = made(batch=8).metrics
    assert found["tokens_per_s"] == pytest.approx(8e3 / found["tpot_ms"])
    assert found["request_ms"] == pytest.approx(found["ttft_ms"] + 255 * found["tpot_ms"])
    assert found["tokens_per_s_request"] == pytest.approx(8 * 256e3 / found["request_ms"])
    machine, work = gpu("h200_sxm"), Work(8, 1024, 256, BF16, BF16, BF16)
    for name, seconds in (("ttft_ms", times.ttft_s), ("tpot_ms", times.tpot_s)):
        assert found[name] == pytest.approx(1e3 * seconds(named("llama3_8b"), work, Parallel(), machine, Efficiency()))


def test_what_does_not_fit_is_an_answer() -> None:
    found = made("llama3_70b", "h100_sxm")
    assert (found.metrics["fits"], found.metrics["max_batch"]) == (0.0, 0.0)
    assert found.metrics["tpot_ms"] > 0
    assert "served_tpot_ms" not in found.metrics


def test_energy_and_money() -> None:
    """A batch of 4 times 256 tokens keeps two GPUs of 700 W and 3 an hour for the time of its requests."""
    found = made(batch=4, parallel=Parallel(2), price=3.0).metrics
    seconds = found["request_ms"] / 1e3 / (4 * 256)
    assert found["joules_per_million_tokens"] == pytest.approx(1e6 * 2 * 700 * seconds)
    assert found["money_per_million_tokens"] == pytest.approx(1e6 * 2 * 3 / 3600 * seconds)
    assert found["tokens_per_s_gpu"] == found["tokens_per_s"] / 2
    assert "money_per_million_tokens" not in made().metrics


def test_a_server_under_load() -> None:
    """The others' prefills come on top of a step, and what finds no room waits."""
    found = made(batch=16, output=512).metrics
    alone = made(batch=1, output=512).metrics["ttft_ms"]
    assert found["served_tpot_ms"] == pytest.approx(found["tpot_ms"] + 15 / 512 * alone)
    assert found["served_waiting_ms"] == 0
    full = made(batch=2000).metrics
    assert full["max_batch"] < 2000
    assert full["served_waiting_ms"] > 1000


def test_fixed_times_reach_the_label() -> None:
    found = made(efficiency=Efficiency("model", "a test", layer_us=500.0, request_us=1e4))
    assert found.labels["bound_decode"] == "overhead"
    assert found.labels["level"] == "model"
    assert found.metrics["ttft_ms"] == pytest.approx(made().metrics["ttft_ms"] + 10 + 16)


def test_notes_name_what_changes_a_figure() -> None:
    assert any("no float8 arithmetic" in note for note in made(on="a100_80_sxm", weights=precision.of("float8")).notes)
    assert not any("arithmetic" in note for note in made().notes)
    assert any("has 1024 positions" in note for note in made("gpt2_small", prompt=1000, output=25).notes)
    assert not any("positions" in note for note in made("gpt2_small", prompt=1000, output=24).notes)
    assert any("draft" in note for note in made(speculative=3, acceptance=0.7).notes)
    assert any("one batch passes the pipeline" in note for note in made(parallel=Parallel(1, 2)).notes)
    lonely = replace(gpu("l4"), pcie="")
    alone = estimate(named("llama3_8b"), Work(1, 9, 9, BF16, BF16, BF16), Parallel(2), lonely, Efficiency(), 10**9, 0.9)
    assert any("no link rate" in note for note in alone.notes)


def test_speculation_shows_in_its_own_metric() -> None:
    assert made(speculative=4, acceptance=0.8).metrics["tokens_per_verification"] == pytest.approx(3.362, abs=1e-3)
    assert "tokens_per_verification" not in made().metrics
