"""Which samples are dropped, on synthetic clocks."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from runner.measure.sm_clock import UNKNOWN
from runner.measure.throttle import ALWAYS, ENOUGH, SHARE, Throttle


def judge(throttle: Throttle, clocks: Iterable[float]) -> str:
    """``k`` for each sample that is kept, ``d`` for one that is dropped."""
    seen = ""
    for mhz in clocks:
        if throttle.slow(mhz) and throttle.may_drop:
            throttle.drop()
            seen += "d"
        else:
            throttle.keep(mhz)
            seen += "k"
    return seen


def test_a_steady_clock_is_left_alone() -> None:
    throttle = Throttle(0.9)
    assert judge(throttle, [1980.0, 1965.0, 1950.0] * 20) == "k" * 60
    assert (throttle.dropped, throttle.kept_slow) == (0, 0)


def test_nothing_is_slow_before_enough_is_known() -> None:
    assert judge(Throttle(0.9), [1980.0] * (ENOUGH - 1) + [500.0]) == "k" * ENOUGH
    assert judge(Throttle(0.9), [1980.0] * ENOUGH + [500.0]) == "k" * ENOUGH + "d"


def test_the_limit_is_a_share_of_the_median() -> None:
    throttle = Throttle(0.9)
    judge(throttle, [1000.0] * ENOUGH)
    assert throttle.normal_mhz == 1000.0
    assert throttle.slow(899.0)
    assert not throttle.slow(901.0)


def test_a_clock_that_comes_up_is_not_judged_by_its_beginning() -> None:
    """Five samples of an idle GPU's clock, then the full one: the median follows."""
    assert judge(Throttle(0.9), [345.0] * 5 + [1980.0] * 20) == "k" * 25


def test_an_unknown_clock_is_neither_slow_nor_normal() -> None:
    throttle = Throttle(0.9)
    assert judge(throttle, [UNKNOWN] * 20) == "k" * 20
    assert throttle.normal_mhz == UNKNOWN
    assert judge(throttle, [1000.0] * ENOUGH + [UNKNOWN]) == "k" * (ENOUGH + 1)


def test_a_locked_clock_is_normal_from_the_first_sample_on() -> None:
    throttle = Throttle(0.9, locked_mhz=1500.0)
    assert judge(throttle, [1300.0, 1500.0, 1400.0]) == "dkk"


def test_beyond_the_cap_slow_samples_are_kept_and_counted() -> None:
    throttle = Throttle(0.9)
    seen = judge(throttle, [1000.0] * 5 + [500.0] * 95)
    assert seen.startswith("k" * 5 + "d" * ALWAYS)
    assert throttle.dropped == 50
    assert throttle.kept_slow == 45
    assert throttle.normal_mhz == 1000.0  # what was held down does not become normal


@given(st.lists(st.sampled_from([UNKNOWN, 300.0, 900.0, 1000.0, 1980.0]), max_size=300), st.sampled_from([0.0, 1500.0]))
def test_no_series_loses_more_than_the_cap(clocks: list[float], locked: float) -> None:
    throttle = Throttle(0.9, locked)
    seen = judge(throttle, clocks)
    assert seen.count("d") == throttle.dropped <= max(ALWAYS, SHARE * len(clocks) + 1)
    assert throttle.kept_slow <= seen.count("k")
