"""What several trials say together."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from runner.plan.model import Target, Variant
from runner.result.metrics import Ceilings, main_series, metrics, times
from runner.result.model import Series
from runner.result.trials import interval, of_mode, over_trials

ONE = Variant("v", (), (), 10**6, 0, 0, "float32")


def trial(number: int, *samples: float, mode: str = "cold") -> Series:
    return Series(mode, "cuda_events", list(samples), trial=number)


def test_one_trial_is_its_own_figures() -> None:
    figures = times(trial(1, *range(1, 30)))
    assert over_trials([figures]) == figures


def test_figures_are_medians_and_counts_are_sums() -> None:
    found = over_trials(
        [times(trial(n, middle - 1, middle, middle + 1)) for n, middle in ((1, 100), (2, 130), (3, 110))]
    )
    assert (found["time_us"], found["samples"], found["trials"]) == (110.0, 9.0, 3.0)
    assert found["time_us_trials_rsd"] == pytest.approx(np.std([100, 130, 110], ddof=1) / np.mean([100, 130, 110]))
    assert found["time_us_q1"] == 109.5


def test_a_figure_that_a_trial_lacks_is_absent() -> None:
    found = over_trials([times(trial(1, *[10.0] * 30)), times(trial(2, *[10.0] * 5))])
    assert "time_us_p95" not in found
    assert (found["time_us_low"], found["time_us_high"]) == pytest.approx((10.0, 10.0))
    assert found["time_us_trials_rsd"] == 0.0


def test_the_interval_is_students_over_the_logarithms() -> None:
    medians = [100.0, 103.0, 99.0, 101.0, 104.0]
    logs = np.log(medians)
    low, high = scipy.stats.t.interval(0.95, 4, loc=logs.mean(), scale=scipy.stats.sem(logs))
    assert interval(medians) == pytest.approx((math.exp(low), math.exp(high)))


@given(st.lists(st.lists(st.floats(0.1, 1e6), min_size=1, max_size=40), min_size=2, max_size=6))
def test_the_interval_holds_the_median_and_is_no_narrower_than_the_trials_own(taken: list[list[float]]) -> None:
    figures = [times(trial(number, *samples)) for number, samples in enumerate(taken, 1)]
    found = over_trials(figures)
    assert found["time_us_low"] <= found["time_us"] <= found["time_us_high"]
    if all("time_us_low" in one for one in figures):
        assert found["time_us_low"] <= np.median([one["time_us_low"] for one in figures])
        assert found["time_us_high"] >= np.median([one["time_us_high"] for one in figures])


def test_the_interval_covers_as_often_as_it_says() -> None:
    """Processes that differ by 3 %, five of them: what samples within one process cannot show."""
    rng = np.random.default_rng(5)
    inside = 0
    for _ in range(400):
        low, high = interval((100 * np.exp(rng.normal(0, 0.03, 5))).tolist())
        inside += low <= 100 <= high
    assert 0.93 * 400 <= inside <= 0.98 * 400


def test_times_of_nothing_have_a_range_and_no_logarithm() -> None:
    assert interval([0.0, 2.0]) == (0.0, 2.0)
    assert math.isfinite(interval([1e-3, 1e6])[1])


def test_metrics_take_every_mode_over_its_trials() -> None:
    series = [
        trial(1, 10.0, 10.0), trial(1, 4.0, mode="hot"), trial(2, 12.0, 12.0), trial(2, 6.0, mode="hot"),
        trial(3, 50.0, 50.0), trial(3, 5.0, mode="hot"),
    ]  # fmt: skip
    found = metrics(ONE, series, (), Target("host"), Ceilings())
    assert (found["time_us"], found["time_hot_us"], found["trials"]) == (12.0, 5.0, 3.0)
    assert found["gbps"] == pytest.approx(1e6 / 12 * 1e-3)
    first = main_series(series)
    assert first is series[0] and [item.trial for item in of_mode(series, "cold")] == [1, 2, 3]
