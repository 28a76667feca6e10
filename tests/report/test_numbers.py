"""Figures as text."""

from __future__ import annotations

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.report import numbers
from tests.synthetic import result


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(numbers).failed == 0


@given(st.floats(min_value=1e-12, max_value=1e15))
def test_digits_are_right_to_the_last_one_shown(value: float) -> None:
    assert float(numbers.digits(value)) == pytest.approx(value, rel=5.1e-3)
    assert len(numbers.digits(value)) <= 8


@pytest.mark.parametrize(("value", "shown"), [(0.9996, "1.00"), (9.996, "10.0"), (99.96, "100"), (9.994, "9.99")])
def test_rounding_that_adds_a_place_adds_no_digit(value: float, shown: str) -> None:
    assert numbers.digits(value) == shown


def test_the_nearer_roof_bounds_and_gives_the_rate() -> None:
    memory = result(metrics={"gbps": 3000.0, "tflops": 2.0, "pct_peak_bandwidth": 60.0, "pct_peak_flops": 3.0})
    assert (numbers.bound(memory), numbers.rate(memory), numbers.peak(memory)) == ("memory", "3000 GB/s", "60.0%")
    compute = result(metrics={"gbps": 30.0, "tflops": 50.0, "pct_peak_bandwidth": 1.0, "pct_peak_flops": 75.0})
    assert (numbers.bound(compute), numbers.rate(compute), numbers.peak(compute)) == (
        "compute",
        "50.0 TFLOP/s",
        "75.0%",
    )
    seen = result(metrics={"pct_ceiling_bandwidth": 2.0, "pct_ceiling_flops": 81.0})
    unknown = {"gbps": 0.001, "tflops": 0.2}
    rates = [numbers.rate(result(metrics={**unknown, "intensity": 1e3 * times})) for times in (1, 100)]
    assert rates == ["0.00100 GB/s", "0.200 TFLOP/s"]
    assert (numbers.ceiling(seen), numbers.ceiling(compute)) == ("81.0%", "–")
    bare = result(metrics={"tflops": 0.5})
    assert (numbers.bound(bare), numbers.rate(bare), numbers.peak(bare)) == ("", "0.500 TFLOP/s", "–")
    assert numbers.rate(result(metrics={})) == numbers.spread(result(metrics={})) == "–"


def test_the_spread_is_that_of_samples_or_of_trials() -> None:
    assert numbers.spread(result(metrics={"time_us": 12.3})) == "12.3 µs"
    assert numbers.spread(result(metrics={"time_us": 12.3, "time_us_rsd": 0.004})) == "12.3 µs ±0.4%"
    found = {"time_us": 12.3, "time_us_rsd": 0.004, "time_us_trials_rsd": 0.02}
    assert numbers.spread(result(metrics=found)) == "12.3 µs ±2.0%"


def test_of_too_few_samples_their_number_is_told() -> None:
    few = {"time_us": 16000.0, "time_us_rsd": 0.002, "samples": 2.0}
    assert numbers.spread(result(metrics=few)) == "16.0 ms (n=2)"
    enough = few | {"samples": 6.0, "time_us_low": 15990.0, "time_us_high": 16010.0}
    assert numbers.spread(result(metrics=enough)) == "16.0 ms ±0.2%"
