from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from runner.references.profiling_ranges import expected
from tests.references.cases import case, check, rows, uniform


def test_saxpy_against_a_loop() -> None:
    x, y = uniform(1, 7), uniform(2, 7)
    got = expected(case({"N": 7, "a": 1.5}, x=x, y=y), check("saxpy"), rows(0, 3, 6))
    assert got.tolist() == [1.5 * float(x[i]) + float(y[i]) for i in (0, 3, 6)]


def test_a_factor_is_what_the_device_gets() -> None:
    got = expected(
        case({"N": 1, "a": 0.1}, x=np.ones(1, np.float32), y=np.zeros(1, np.float32)), check("saxpy"), rows(0)
    )
    assert got[0] == float(np.float32(0.1))


@pytest.mark.parametrize("iters", [0, 1, 5, 40])
def test_chain_against_exact_steps(iters: int) -> None:
    x = uniform(3, 4)
    got = expected(case({"N": 4, "iters": iters}, x=x), check("fma_chain"), rows(0, 1, 2, 3))
    for start, found in zip(x, got, strict=True):
        value = Fraction(float(start))
        for _ in range(iters):
            value = value * Fraction(4095, 4096) + Fraction(1, 4096)
        assert found == pytest.approx(float(value), abs=1e-13)


def test_tolerance_holds_for_single_precision_steps_at_any_length() -> None:
    """The bound the family's YAML states, on the arithmetic the kernel does."""
    x = np.concatenate([uniform(4, 300), np.array([-1.0, 1.0, 0.0], np.float32)])
    value = x.copy()
    every = np.arange(len(x))
    for step in range(1, 40_001):
        value = (value.astype(np.float64) * (4095 / 4096) + 1 / 4096).astype(np.float32)
        if step in (64, 4096, 40_000):
            truth = expected(case({"N": len(x), "iters": step}, x=x), check("fma_chain"), every)
            assert np.abs(value - truth).max() <= 1.25e-4
