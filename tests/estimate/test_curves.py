"""The points of the plots."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runner.config.schema import Model
from runner.estimate import architecture, precision
from runner.estimate.curves import over_batch, over_context
from runner.estimate.estimate import estimate
from runner.estimate.model import Efficiency, Estimate, Machine, Parallel, Work

MODEL = Model(name="m", layers=4, hidden=512, heads=8, kv_heads=8, head_dim=64, intermediate=1024, vocab=1000)
GPU = Machine("g", 1000.0, 2 * 10**9, {"bfloat16": 100.0, "float16": 100.0})
BITS16 = precision.of("bfloat16")


def made(memory_bytes: int = GPU.memory_bytes, batch: int = 3) -> Estimate:
    work = Work(batch, 100, 28, BITS16, BITS16, BITS16)
    gpu = replace(GPU, memory_bytes=memory_bytes)
    return estimate(architecture.of(MODEL), work, Parallel(), gpu, Efficiency(), 10**8, 0.9)


def test_memory_grows_by_the_kv_cache_until_it_passes_the_weights_and_the_limit() -> None:
    points = over_context(made())
    assert [point.context for point in points[:3]] == [128, 256, 512]
    assert points[0].memory == made().memory
    last = points[-1].memory
    assert last.kv > last.weights
    assert last.total > last.available > points[0].memory.total
    assert points[-2].memory.total <= 1.25 * last.available or points[-2].memory.kv <= last.weights


def test_batches_double_up_to_the_first_that_does_not_fit() -> None:
    whole = made()
    points = over_batch(whole)
    most = int(whole.metrics["max_batch"])
    assert {1, 2, 3, 4, most} <= {point.batch for point in points}
    assert [point.fits for point in points] == [point.batch <= most for point in points]
    assert not points[-1].fits
    own = next(point for point in points if point.batch == 3)
    assert own.tokens_per_s == pytest.approx(whole.metrics["tokens_per_s"])
    assert own.tpot_ms == pytest.approx(whole.metrics["tpot_ms"])


def test_a_model_that_never_fits_is_drawn_for_small_batches_and_its_own() -> None:
    small = made(memory_bytes=10**6, batch=48)
    points = over_batch(small)
    assert [point.batch for point in points] == [1, 2, 4, 8, 16, 32, 48]
    assert not any(point.fits for point in points)
