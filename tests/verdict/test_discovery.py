"""The correction agrees with SciPy's."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
from scipy.stats import false_discovery_control

from runner.verdict import discovery


@pytest.mark.parametrize("count", [1, 2, 7, 500])
def test_as_scipy_has_it(count: int) -> None:
    p = np.random.default_rng(count).uniform(0, 1, count) ** 3
    assert np.allclose(discovery.adjusted(p), false_discovery_control(p))


def test_equal_values_stay_equal() -> None:
    assert discovery.adjusted(np.array([0.02, 0.02, 0.02])).tolist() == pytest.approx([0.02] * 3)


def test_the_example_holds() -> None:
    assert doctest.testmod(discovery).failed == 0
