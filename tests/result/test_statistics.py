"""Summaries of synthetic series."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from runner.result.statistics import summarise

SAMPLES = st.lists(st.floats(0.1, 1e6), min_size=1, max_size=300)


def normal(count: int, spread: float = 0.01, seed: int = 4) -> list[float]:
    samples: list[float] = np.random.default_rng(seed).normal(100, 100 * spread, count).tolist()
    return samples


@given(SAMPLES)
def test_order_and_agreement_with_numpy(samples: list[float]) -> None:
    made = summarise(samples)
    assert made.count == len(samples)
    assert made.min <= made.q1 <= made.median <= made.q3 <= made.max
    assert made.median == pytest.approx(np.median(samples))
    assert made.mean == pytest.approx(np.mean(samples))
    assert (made.rsd is None) == (len(samples) < 2)
    if made.rsd is not None:
        assert made.rsd == pytest.approx(np.std(samples, ddof=1) / np.mean(samples))
    assert (made.p95 is None) == (len(samples) < 20)
    assert (made.p99 is None) == (len(samples) < 100)
    if made.p95 is not None and made.p99 is not None:
        assert made.median <= made.p95 <= made.p99 <= made.max


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=300))
def test_interval_of_the_median_agrees_with_scipy(values: list[int]) -> None:
    made = summarise(values)
    assert (made.median_low is None) == (made.median_high is None) == (len(values) < 6)
    if made.median_low is not None and made.median_high is not None:
        assert made.median_low <= made.median <= made.median_high
        oracle = scipy.stats.quantile_test(values, q=np.median(values), p=0.5).confidence_interval(0.95)
        ordered = np.sort(values)
        # SciPy's ranks may differ by one: it takes the two tails separately.
        for mine, theirs in ((made.median_low, oracle.low), (made.median_high, oracle.high)):
            if np.isfinite(theirs):
                left = np.searchsorted(ordered, theirs, side="left") - 1
                right = np.searchsorted(ordered, theirs, side="right")
                near = ordered[max(0, left) : right + 1]
                assert near.min() <= mine <= near.max()


def test_the_interval_covers_the_median_as_often_as_it_says() -> None:
    rng = np.random.default_rng(8)
    covered = 0
    for _ in range(400):
        made = summarise(rng.exponential(1.0, 25).tolist())  # skewed, as times are
        assert made.median_low is not None and made.median_high is not None
        covered += made.median_low <= np.log(2) <= made.median_high
    assert covered >= 0.93 * 400


def test_the_interval_narrows_with_more_samples() -> None:
    widths = []
    for count in (10, 100, 1000, 10000):
        made = summarise(normal(count))
        assert made.median_low is not None and made.median_high is not None
        widths.append(made.median_high - made.median_low)
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < widths[0] / 10


def test_a_constant_series() -> None:
    made = summarise([5.0] * 50)
    assert (made.median, made.rsd, made.q1, made.q3, made.outliers, made.flags) == (5.0, 0.0, 5.0, 5.0, 0, ())


def test_zeros() -> None:
    made = summarise([0.0] * 30)
    assert (made.rsd, made.outliers, made.flags) == (0.0, 0, ())


def test_noise_raises_no_flag() -> None:
    for seed in range(50):
        for count in (24, 30, 200):
            made = summarise(normal(count, seed=seed))
            assert made.flags == ()
            assert made.outliers == 0


def test_a_slow_first_sample_is_flagged() -> None:
    made = summarise([150.0, *normal(30)])
    assert made.flags == ("first_outlier",)
    assert made.outliers == 1


def test_a_slow_sample_later_is_an_outlier_only() -> None:
    made = summarise([*normal(30), 150.0])
    assert made.flags == ()
    assert made.outliers == 1


def test_outliers_among_identical_samples() -> None:
    assert summarise([10.0] * 20 + [10.05]).outliers == 0  # half a per cent: the timer's tick
    assert summarise([10.0] * 20 + [11.0]).outliers == 1


@pytest.mark.parametrize("direction", [1, -1])
def test_a_ramp_is_drift(direction: int) -> None:
    ramp = np.linspace(100, 110, 60)[::direction]
    assert summarise((ramp + np.random.default_rng(0).normal(0, 0.3, 60)).tolist()).flags == ("drift",)


def test_a_step_in_the_middle_is_drift() -> None:
    samples = normal(40, spread=0.001) + [value * 1.03 for value in normal(40, spread=0.001)]
    assert summarise(samples).flags == ("drift",)


@pytest.mark.parametrize("samples", [[4.0] * 60 + [4.032] * 30, [4.032] * 30 + [4.0] * 60])
def test_a_step_of_one_tick_is_drift_whichever_way_it_goes(samples: list[float]) -> None:
    assert summarise(samples).flags == ("drift",)


def test_noise_of_a_few_ticks_is_no_drift() -> None:
    rng = np.random.default_rng(4)
    for _ in range(500):
        ticks = np.round(rng.normal(rng.uniform(4.9, 5.1), 0.016, 30) / 0.032)
        assert "drift" not in summarise((0.032 * ticks).tolist()).flags


def test_a_tiny_ramp_is_none() -> None:
    assert summarise(np.linspace(100, 100.3, 60).tolist()).flags == ()


def test_two_modes_are_bimodal() -> None:
    rng = np.random.default_rng(2)
    samples = np.where(rng.random(100) < 0.3, 120.0, 100.0) + rng.normal(0, 0.5, 100)
    assert summarise(samples.tolist()).flags == ("bimodal",)


def test_two_ticks_of_the_timer_are_no_modes() -> None:
    assert summarise([100.0, 100.5] * 30).flags == ()


def test_a_uniform_spread_is_no_two_modes() -> None:
    assert summarise(np.random.default_rng(3).uniform(90, 110, 200).tolist()).flags == ()


@pytest.mark.parametrize("samples", [[], [1.0, float("nan")], [float("inf")]])
def test_nothing_to_summarise(samples: list[float]) -> None:
    with pytest.raises(ValueError, match="samples to summarise"):
        summarise(samples)


def test_speed() -> None:
    samples = normal(1000)
    took = []
    for _ in range(5):
        begin = time.process_time()
        summarise(samples)
        took.append(time.process_time() - begin)
    assert min(took) < 0.005


def test_scipy_is_not_needed() -> None:
    code = "from runner.result.statistics import summarise; summarise([1.0] * 50)"
    code = f"import sys; {code}; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
