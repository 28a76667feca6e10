"""Clocks from two stamps: cycles over time, and when there is none."""

from __future__ import annotations

from typing import Any

import pytest

from runner.measure.sm_clock import UNKNOWN, SmClock, slowest


class Reader:
    """A clock on a pretended device, whose stamps are put where the device's would be."""

    def __init__(self, bench: Any) -> None:
        self.made = bench()
        self.clock = SmClock(self.made.device, "stamp", self.made.stream)  # type: ignore[arg-type]

    def over(self, begin: tuple[int, int], end: tuple[int, int]) -> float:
        self.clock.end(self.made.stream)
        self.made.device.queue.pop(0)  # the stamp itself
        self.made.device.stamps[:] = [begin, end]
        self.made.stream.synchronize()
        return self.clock.mhz()


@pytest.fixture
def reader(bench: Any) -> Reader:
    return Reader(bench)


def test_a_clock_is_cycles_over_time(reader: Reader) -> None:
    begin = (2**60, 2**40)
    assert reader.over(begin, (2**60 + 50_000, 2**40 + 99_000)) == pytest.approx(1980.0)


def test_a_stamp_that_was_not_written_is_no_clock(reader: Reader) -> None:
    assert reader.over((1_000_000, 0), (1_050_000, 99_000)) == pytest.approx(1980.0)
    assert reader.over((1_000_000, 0), (1_150_000, 199_000)) == UNKNOWN
    assert reader.over((1_200_000, 300_000), (1_150_000, 199_000)) == UNKNOWN
    assert reader.over((1_300_000, 400_000), (1_350_000, 499_000)) == pytest.approx(1980.0)


def test_a_span_as_short_as_a_step_of_the_timer_is_no_clock(reader: Reader) -> None:
    assert reader.over((1_000_000, 0), (1_009_000, 18_000)) == UNKNOWN
    assert reader.over((1_020_000, 0), (1_030_000, 20_000)) == pytest.approx(2000.0)


def test_cycles_that_run_backwards_are_no_clock(reader: Reader) -> None:
    assert reader.over((1_000_000, 5_000), (1_050_000, 4_000)) == UNKNOWN


def test_every_multiprocessor_gets_a_block(bench: Any) -> None:
    made, grids = bench(), []
    made.stream.launch = lambda function, grid, block, shared, arguments: grids.append((function, grid, block))
    SmClock(made.device, "stamp", made.stream).begin(made.stream)  # type: ignore[arg-type]
    assert grids == [("stamp", (4, 1, 1), (1, 1, 1))]


def test_of_several_devices_the_slowest_known_one_counts(bench: Any) -> None:
    class Fixed:
        def __init__(self, value: float) -> None:
            self.value = value

        def mhz(self) -> float:
            return self.value

    def of(*values: float) -> float:
        return slowest([Fixed(value) for value in values])  # type: ignore[misc]

    assert of(1980.0, 1755.0) == 1755.0
    assert of(1980.0, UNKNOWN) == 1980.0
    assert of(UNKNOWN) == of() == UNKNOWN
