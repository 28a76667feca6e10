"""What changes would buy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runner.estimate import precision
from runner.estimate.change import METRICS, Change, changes, next_larger
from runner.estimate.estimate import estimate
from runner.estimate.model import Efficiency, Estimate, Parallel, Work
from tests.estimate.machines import gpu
from tests.estimate.models import named

BF16 = precision.of("bfloat16")
GPUS = tuple(map(gpu, ("a100_80_sxm", "h100_sxm", "h200_sxm", "b200")))


def made(model: str, on: str = "h100_sxm", weights: str = "bfloat16", tensor: int = 1) -> Estimate:
    work = replace(Work(4, 1024, 256, BF16, BF16, BF16), weights=precision.of(weights))
    return estimate(named(model), work, Parallel(tensor), gpu(on), Efficiency(), 2 * 10**9, 0.9)


def found(of: Estimate) -> dict[tuple[str, str], Change]:
    return {(one.name, one.metric): one for one in changes(of, GPUS)}


def names(of: Estimate) -> list[str]:
    return list(dict.fromkeys(one.name for one in changes(of, GPUS)))


def test_changes_of_a_model_with_grouped_attention() -> None:
    before = made("llama3_8b")
    assert names(before) == [
        "estimate.weights=float8",
        "estimate.weights=int8",
        "estimate.weights=int4_g128",
        "estimate.kv=float8",
        "shape.batch=8",
        "estimate.tensor=2",
        "gpu=h200_sxm",
    ]
    table = found(before)
    assert {metric for _, metric in table} == set(METRICS)
    for (_, metric), one in table.items():
        assert one.before == before.metrics[metric]
    assert table["gpu=h200_sxm", "tpot_ms"].ratio == pytest.approx(3350 / 4800)
    assert table["estimate.kv=float8", "max_batch"].ratio == pytest.approx(2, rel=0.02)
    assert table["estimate.weights=int4_g128", "tpot_ms"].after < table["estimate.weights=int8", "tpot_ms"].after
    assert table["shape.batch=8", "tokens_per_s"].ratio > 1.8
    assert table["estimate.tensor=2", "memory_bytes"].ratio < 0.6


def test_weight_only_formats_leave_the_prefill_as_it_is() -> None:
    table = found(made("llama3_8b"))
    assert table["estimate.weights=int8", "ttft_ms"].ratio == pytest.approx(1)
    assert table["estimate.weights=float8", "ttft_ms"].ratio < 0.6


def test_grouped_attention_where_every_head_has_its_own_keys() -> None:
    table = found(made("llama2_7b"))
    assert table["model.kv_heads=8", "max_batch"].ratio > 3.9
    assert "model.kv_heads=8" not in names(made("deepseek_v3"))


def test_only_fewer_bits_and_what_the_gpu_has() -> None:
    assert not {"estimate.weights=float8", "estimate.weights=int8"} & set(names(made("llama3_8b", weights="int8")))
    assert "estimate.weights=float8" not in names(made("llama3_8b", on="a100_80_sxm"))


def test_a_spread_that_does_not_divide_is_left_out() -> None:
    assert "estimate.tensor=2" in names(made("qwen2_5_0_5b"))
    assert "estimate.tensor=4" not in names(made("qwen2_5_0_5b", tensor=2))


def test_the_next_larger_gpu() -> None:
    assert next_larger(gpu("h100_sxm"), GPUS) == gpu("h200_sxm")
    assert next_larger(gpu("b200"), GPUS) is None
    assert next_larger(gpu("h200_sxm"), ()) is None


def test_nothing_before_has_no_ratio() -> None:
    one = found(made("llama3_70b"))["estimate.weights=int4_g128", "max_batch"]
    assert (one.before, one.ratio) == (0, 0)
    assert one.after > 0
