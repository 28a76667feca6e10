"""What a series shows, in words with its figures."""

from __future__ import annotations

import numpy as np
import pytest

from runner.result import doubts
from runner.result.doubts import percent, us
from runner.result.metrics import times
from runner.result.model import Series
from runner.result.trials import over_trials


def cold(samples: list[float], stop: str = "rsd", mhz: list[float] | None = None) -> Series:
    return Series("cold", "cuda_events", samples, stop_reason=stop, clock_mhz=mhz or [])


def series_doubts(series: Series, max_rsd: float) -> list[str]:
    return doubts.series_doubts([series], times(series), max_rsd)


def noise(count: int, spread: float = 0.001) -> list[float]:
    samples: list[float] = np.random.default_rng(4).normal(100, 100 * spread, count).tolist()
    return samples


def test_a_quiet_series_says_nothing() -> None:
    assert series_doubts(cold(noise(50)), 0.005) == []


def test_a_slow_first_sample() -> None:
    (said,) = series_doubts(cold([150.0, *noise(30)]), 0.005)
    assert said.startswith("the first sample took 150 µs, the median is 100 µs:") and "measure.warmup=" in said


@pytest.mark.parametrize(("order", "word"), [(1, "rose"), (-1, "fell")])
def test_a_drift_names_its_direction_and_both_ends(order: int, word: str) -> None:
    ramp = np.linspace(100, 110, 61)[::order]
    (said,) = series_doubts(cold(ramp.tolist(), stop="fixed"), 0.005)
    begin, end = (101.6, 108.4) if order == 1 else (108.4, 101.6)
    moved = percent(abs(end / begin - 1))
    # Medians of 20 of 61 equal steps from 100 to 110: 100 + 9.5/60*10 and 110 - 9.5/60*10.
    assert said.startswith(f"the times {word} by {moved} within the series, from {begin:g} µs to {end:g} µs")


def test_two_modes_are_both_named() -> None:
    rng = np.random.default_rng(2)
    samples = np.where(rng.permutation(100) < 30, 120.0, 100.0)
    (said,) = series_doubts(cold(samples.tolist(), stop="fixed"), 0.005)
    assert said.startswith("the times lie round two values, 100 µs (70 % of the samples) and 120 µs:")


def test_a_wide_interval_where_a_narrower_spread_was_asked() -> None:
    samples = [90.0, 95.0, 98.0, 100.0, 102.0, 105.0, 110.0]
    (said,) = series_doubts(cold(samples, stop="max_time"), 0.005)
    assert said.startswith("the median is known to ±10 % only (95 % interval 90 µs to 110 µs), and 0.5 % was asked for")
    assert series_doubts(cold(samples, stop="max_time"), 0.2) == []
    assert series_doubts(cold(samples, stop="fixed"), 0.005) == []  # no spread was asked for
    assert series_doubts(cold(samples[:5], stop="max_time"), 0.005) == []  # too few for an interval


def test_a_clock_that_moved_is_said_and_a_steady_one_not() -> None:
    (said,) = series_doubts(cold(noise(20), mhz=[1980.0] * 10 + [1500.0] * 10), 0.005)
    assert said.startswith("the SM clock moved between 1500 and 1980 MHz")
    assert series_doubts(cold(noise(20), mhz=[1980.0] * 10 + [1965.0] * 10), 0.005) == []
    assert series_doubts(cold(noise(20), mhz=[1980.0] * 10 + [0.0] * 10), 0.005) == []  # 0: not known


def test_what_several_trials_show_is_said_once() -> None:
    quiet, slow = noise(30), [150.0, *noise(30)]
    trials = [Series("cold", "", samples, trial=number) for number, samples in enumerate((quiet, slow, slow), 1)]
    (said,) = doubts.series_doubts(trials, over_trials([times(item) for item in trials]), 0.005)
    assert said.startswith("in 2 of 3 trials, trial 2 the first: the first sample took 150 µs")


def test_trials_that_differ_widen_the_interval() -> None:
    trials = [Series("cold", "", [middle] * 10, trial=number) for number, middle in enumerate((100.0, 102.0, 104.0), 1)]
    figures = over_trials([times(item) for item in trials])
    (said,) = doubts.series_doubts(trials, figures, 0.005)
    # t(0.975, 2) = 4.303, times 2 / sqrt(3) = 4.97 of 102.
    assert "±4.9 % only" in said and "the medians of 3 trials spread by 2 %; take more of them" in said


def test_trials_that_agree_and_are_unsure_each_want_more_samples() -> None:
    wide = [90.0, 95.0, 98.0, 100.0, 102.0, 105.0, 110.0]
    trials = [Series("cold", "", wide, trial=number) for number in (1, 2, 3)]
    (said,) = doubts.series_doubts(trials, over_trials([times(item) for item in trials]), 0.005)
    assert "±10 % only (95 % interval 90 µs to 110 µs)" in said
    assert said.endswith(
        "the medians of 3 trials spread by 0 %, each of them is less sure: "
        "allow more samples (measure.max_time_s=, measure.min_samples=)"
    )


@pytest.mark.parametrize(
    ("seen", "agrees"), [(100.0, True), (106.0, True), (94.0, True), (106.1, False), (93.9, False)]
)
def test_a_second_opinion_may_be_three_percent_and_three_microseconds_off(seen: float, agrees: bool) -> None:
    assert (doubts.crosscheck_doubt(100.0, seen, "CUPTI sees") == "") is agrees


def test_both_opinions_are_named() -> None:
    said = doubts.crosscheck_doubt(100.0, 50.0, "CUPTI sees")
    assert said.startswith("CUPTI sees 50 µs from the start of a step's first kernel to the end of its last, 50 % less")
    assert "the 100 µs of time_us" in said


def test_figures() -> None:
    assert (us(0.5), us(12.3456), us(123456.7)) == ("0.5 µs", "12.35 µs", "123457 µs")
    assert (percent(0.0051), percent(0.12), percent(3.0)) == ("0.51 %", "12 %", "300 %")
