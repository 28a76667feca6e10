"""The stopping rules on synthetic series."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.measure.settings import MeasureSettings
from runner.measure.stopping import (
    FixedCount,
    MaxSamples,
    Progress,
    RelativeDeviation,
    SettledNoise,
    Stopper,
    WallClock,
)

REASONS = {"rsd", "settled", "fixed", "max_samples", "max_time"}


class Clock:
    """Seconds; every sample moves it by its own time and ``overhead_s``."""

    def __init__(self, overhead_s: float = 0.0) -> None:
        self.now = 0.0
        self.overhead_s = overhead_s

    def __call__(self) -> float:
        return self.now


def drive(rules: MeasureSettings, samples: Iterable[float], overhead_s: float = 0.0) -> tuple[int, str | None]:
    """(samples taken, reason); the reason is None when the samples ran out."""
    clock = Clock()
    stopper = Stopper(rules, clock)
    count = 0
    for count, sample in enumerate(samples, 1):
        clock.now += sample * 1e-6 + overhead_s
        reason = stopper.stop(sample)
        if reason is not None:
            return count, reason
    return count, None


def constant(value: float = 1000.0) -> Iterator[float]:
    while True:
        yield value


def noisy(spread: float, seed: int = 1, mean: float = 1000.0) -> Iterator[float]:
    rng = np.random.default_rng(seed)
    while True:
        yield from np.abs(rng.normal(mean, spread * mean, 1000)).tolist()


def worsening(mean: float = 1000.0) -> Iterator[float]:
    """The spread grows with every sample, so that it neither falls below a limit nor settles."""
    sample = 1
    while True:
        yield mean * (1 + 0.2 * math.log(sample) * (1 if sample % 2 else -0.4)) if sample > 1 else mean
        sample = sample + 1


def progress(samples: Iterable[float]) -> Progress:
    made = Progress()
    for sample in samples:
        made.add(sample, 1, made.wall_s + sample * 1e-6)
    return made


@given(st.lists(st.floats(0.1, 1e6), min_size=2, max_size=50))
def test_progress_agrees_with_numpy(samples: list[float]) -> None:
    made = progress(samples)
    assert made.count == len(samples)
    assert made.mean_us == pytest.approx(np.mean(samples))
    assert made.rsd == pytest.approx(np.std(samples, ddof=1) / np.mean(samples), abs=1e-6)
    assert made.device_s == pytest.approx(sum(samples) * 1e-6)


def test_spread_of_too_few_or_of_zeros() -> None:
    assert progress([]).rsd == math.inf
    assert progress([5.0]).rsd == math.inf
    assert progress([0.0, 0.0]).rsd == 0.0


def test_steps_count_towards_device_time() -> None:
    made = Progress()
    made.add(10.0, 1000, 0.5)
    assert made.device_s == pytest.approx(0.01)


def test_a_constant_series_stops_at_once_after_the_minima() -> None:
    by_samples = MeasureSettings(min_samples=10, min_time_s=0.005)
    assert drive(by_samples, constant()) == (10, "rsd")
    by_time = MeasureSettings(min_samples=10, min_time_s=0.0495)
    assert drive(by_time, constant()) == (50, "rsd")


def test_a_quiet_series_stops_by_its_spread() -> None:
    count, reason = drive(MeasureSettings(), noisy(0.004))
    assert reason == "rsd"
    assert 500 <= count < 520  # 0.5 s of samples of 1 ms


def test_one_sample_has_no_spread() -> None:
    rules = MeasureSettings(min_samples=1, min_time_s=0)
    assert drive(rules, constant()) == (2, "rsd")


def test_a_noisy_series_stops_when_its_spread_has_settled() -> None:
    count, reason = drive(MeasureSettings(), noisy(0.03))
    assert reason == "settled"
    assert count >= 500  # not before min_time_s
    assert count % SettledNoise.EVERY == 0


def test_noise_does_not_settle_before_enough_spreads() -> None:
    count, reason = drive(MeasureSettings(min_samples=2, min_time_s=0), noisy(0.03))
    assert reason == "settled"
    assert count > SettledNoise.MIN_SPREADS


def test_a_tiny_kernel_settles_by_wall_clock() -> None:
    """5 µs a step would take 100,000 samples to add up to half a second."""
    count, reason = drive(MeasureSettings(), noisy(0.05, mean=5.0), overhead_s=95e-6)
    assert reason == "settled"
    assert 4900 < count < 6000


def test_a_series_that_worsens_runs_to_the_limit() -> None:
    count, reason = drive(MeasureSettings(max_time_s=1.0, settled=0.0), worsening())
    assert reason == "max_time"
    assert count > 100


def test_an_alternating_series_never_meets_the_spread() -> None:
    rules = MeasureSettings(max_time_s=1.0, settled=0.0)
    samples = (900.0 if i % 2 else 1100.0 for i in range(10**6))
    count, reason = drive(rules, samples)
    assert (count, reason) == (1000, "max_time")


def test_a_fixed_count_ignores_the_rules() -> None:
    rules = MeasureSettings(fixed=7, min_samples=1, min_time_s=0)
    assert drive(rules, constant()) == (7, "fixed")
    assert drive(rules, noisy(0.5)) == (7, "fixed")


def test_the_hard_limit_holds_for_a_fixed_count_too() -> None:
    assert drive(MeasureSettings(fixed=10_000, max_time_s=0.1), constant()) == (100, "max_time")


def test_the_hard_limit_comes_before_the_minimum_of_samples() -> None:
    assert drive(MeasureSettings(max_time_s=2.0), constant(1.5e6)) == (2, "max_time")


def test_max_samples() -> None:
    assert drive(MeasureSettings(max_samples=20), noisy(0.5)) == (20, "max_samples")


@pytest.mark.parametrize(
    "criterion",
    [FixedCount(3), MaxSamples(3), WallClock(0.003), RelativeDeviation(0.01, 3, 0.0)],
    ids=lambda criterion: criterion.reason,
)
def test_each_criterion_turns_once_and_stays(criterion: FixedCount) -> None:
    made, seen = Progress(), []
    for _ in range(5):
        made.add(1000.0, 1, made.wall_s + 0.001)
        seen.append(criterion.met(made))
    assert seen == [False, False, True, True, True]


RULES = st.builds(
    MeasureSettings,
    min_samples=st.integers(1, 30),
    max_samples=st.integers(30, 200),
    min_time_s=st.floats(0, 0.2),
    max_time_s=st.floats(0.01, 0.5),
    max_rsd=st.floats(0, 0.1),
    settled=st.floats(0, 0.2),
    fixed=st.sampled_from([0, 0, 0, 5, 50]),
)
SERIES = st.lists(st.floats(1.0, 1e5), min_size=1, max_size=200)


@settings(max_examples=200)
@given(RULES, SERIES, st.floats(0, 1e-3))
def test_every_series_ends_in_bounds_and_says_why(
    rules: MeasureSettings, cycle: list[float], overhead_s: float
) -> None:
    samples = [cycle[i % len(cycle)] for i in range(max(rules.max_samples, rules.fixed))]
    count, reason = drive(rules, samples, overhead_s)
    assert reason in REASONS
    assert count <= (rules.fixed or rules.max_samples)
    walls = np.cumsum(np.array(samples[:count]) * 1e-6 + overhead_s)
    # Sums of floats in another order: leave a little room.
    assert count == 1 or walls[-2] < rules.max_time_s + 1e-9, "went on after the limit"
    if reason in ("rsd", "settled"):
        assert count >= rules.min_samples
        assert not rules.fixed
        assert walls[-1] >= rules.min_time_s - 1e-9
    if reason == "max_time":
        assert walls[-1] >= rules.max_time_s - 1e-9


@settings(max_examples=50)
@given(RULES, SERIES, st.integers(0, 20))
def test_more_minimum_samples_never_stop_earlier(rules: MeasureSettings, cycle: list[float], more: int) -> None:
    samples = [cycle[i % len(cycle)] for i in range(rules.max_samples + 1)]
    stricter = MeasureSettings(**{**vars(rules), "min_samples": min(30, rules.min_samples + more)})
    assert drive(stricter, samples)[0] >= drive(rules, samples)[0]
