"""Verdicts on series of known truth: few false alarms, small shifts found, and doubt where doubt is due."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.result.model import Quality, Status
from runner.verdict.judge import judge
from runner.verdict.model import Judged, Measured, Pair, Rules, Verdict
from runner.verdict.noise import CPU, GPU, HOST_CLOCK, Floor, floor_of
from tests.verdict.synthetic import measured, series

ALARMS = {Verdict.FASTER, Verdict.SLOWER}


def one(pair: Pair, **rules: Any) -> Judged:
    (found,) = judge([pair], Rules(**rules))
    return found


@pytest.mark.parametrize(("kind", "noise"), [("normal", 0.003), ("lognormal", 0.003), ("heavy", 0.02)])
def test_the_same_against_itself_alarms_in_one_of_a_hundred_at_most(kind: str, noise: float) -> None:
    """Each pair judged alone, which is where chance has it easiest; two processes differ by up to the noise floor."""
    random = np.random.default_rng(7)
    half = GPU.assumed / 2
    found: Counter[Verdict] = Counter()
    for _ in range(2000):
        levels = 100 * (1 + random.uniform(-half, half, 2))
        sides = [measured(series(random, kind, noise, 30, level)) for level in levels]
        found[one(Pair(*sides)).verdict] += 1
    assert found[Verdict.FASTER] + found[Verdict.SLOWER] <= 20
    if noise == 0.003:
        assert found[Verdict.SAME] > 1600, "a quiet machine is told so"


@pytest.mark.parametrize("kind", ["normal", "lognormal", "heavy"])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_shift_of_one_percent_at_a_noise_of_three_per_mille_is_found(kind: str, sign: int) -> None:
    random = np.random.default_rng(11)
    wanted = Verdict.SLOWER if sign > 0 else Verdict.FASTER
    found: Counter[Verdict] = Counter()
    for _ in range(400):
        then = measured(series(random, kind, 0.003))
        now = measured(series(random, kind, 0.003, level=100 * (1 + sign * 0.01)))
        found[one(Pair(then, now)).verdict] += 1
    assert found[wanted] >= 380, found


def test_many_comparisons_of_the_same_raise_no_alarm_together() -> None:
    random = np.random.default_rng(3)
    alarmed = 0
    for _ in range(40):
        pairs = [Pair(*(measured(series(random, "normal", 0.02, 20)) for _ in range(2))) for _ in range(50)]
        alarmed += any(each.verdict in ALARMS for each in judge(pairs))
    assert alarmed <= 1


def test_those_that_really_differ_are_found_among_many_that_do_not() -> None:
    random = np.random.default_rng(5)
    levels = [103.0 if number < 10 else 100.0 for number in range(200)]
    pairs = [
        Pair(measured(series(random, "normal", 0.003)), measured(series(random, "normal", 0.003, level=level)))
        for level in levels
    ]
    verdicts = [each.verdict for each in judge(pairs)]
    assert verdicts[:10] == [Verdict.SLOWER] * 10
    assert set(verdicts[10:]) <= {Verdict.SAME, Verdict.AMBIGUOUS}


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    gap=st.floats(0.05, 0.5),
    share=st.floats(0.3, 0.7),
    shift=st.floats(-0.3, 0.3),
)
def test_two_modes_end_ambiguous_whatever_the_shift(seed: int, gap: float, share: float, shift: float) -> None:
    random = np.random.default_rng(seed)
    slow = random.permutation(60) < 60 * share
    then = series(random, "normal", 0.001, 60) * np.where(slow, 1 + gap, 1)
    now = series(random, "normal", 0.001, 60, 100 * (1 + shift))
    found = one(Pair(measured(then), measured(now)))
    assert found.verdict is Verdict.AMBIGUOUS and found.reason.startswith("baseline: bimodal")


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), rise=st.floats(0.02, 0.3), down=st.booleans())
def test_a_drift_ends_ambiguous(seed: int, rise: float, down: bool) -> None:
    random = np.random.default_rng(seed)
    ramp = np.linspace(0, -rise if down else rise, 60)
    then, now = series(random, "normal", 0.002, 60), series(random, "normal", 0.002, 60) * (1 + ramp)
    found = one(Pair(measured(then), measured(now)))
    assert found.verdict is Verdict.AMBIGUOUS and found.reason.startswith("candidate: drift")


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), shift=st.floats(-0.2, 0.2))
def test_sides_do_not_matter(seed: int, shift: float) -> None:
    random = np.random.default_rng(seed)
    then, now = series(random, "normal", 0.003), series(random, "normal", 0.003, level=100 * (1 + shift))
    forth = one(Pair(measured(then), measured(now)))
    back = one(Pair(measured(now), measured(then)))
    mirrored = {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}
    assert back.verdict is mirrored.get(forth.verdict, forth.verdict)
    assert forth.effect is not None and back.effect is not None and forth.low is not None and forth.high is not None
    assert math.log1p(forth.effect) == pytest.approx(-math.log1p(back.effect), abs=1e-9)
    assert forth.low < forth.effect < forth.high


def test_the_host_rather_says_nothing() -> None:
    random = np.random.default_rng(2)
    host: dict[str, Any] = {"backend": "host", "method": "host_events", "device": "a CPU"}
    then = measured(series(random, "normal", 0.003), **host)
    slower = measured(series(random, "normal", 0.003, level=145), **host)
    found = one(Pair(then, slower))
    assert found.verdict is Verdict.AMBIGUOUS and found.floor == pytest.approx(math.expm1(0.5))
    assert one(Pair(then, measured(series(random, "normal", 0.003, level=250), **host))).verdict is Verdict.SLOWER
    trials = trialled(100, 0.02, **host)
    assert one(Pair(trials, trialled(135, 0.02, **host))).verdict is Verdict.AMBIGUOUS
    assert one(Pair(trials, trialled(160, 0.02, **host))).verdict is Verdict.SLOWER
    assert one(Pair(trials, trials), tolerance=0.4).verdict is Verdict.SAME


@pytest.mark.parametrize(
    ("backend", "method", "floor"),
    [
        ("cuda", "cuda_events", GPU),
        ("cuda", "cuda_events_with_launch", GPU),
        ("cuda", "host_clock", HOST_CLOCK),
        ("cuda", "wall_clock", HOST_CLOCK),
        ("host", "host_events", CPU),
        ("host", "wall_clock", CPU),
    ],
)
def test_the_floor_is_that_of_the_clock(backend: str, method: str, floor: Floor) -> None:
    assert floor_of(measured([1.0] * 6, backend=backend, method=method)) is floor


def trialled(level: float, rsd: float, trials: int = 5, **changes: Any) -> Any:
    return measured([level] * 6, low=None, high=None, trials=trials, trials_rsd=rsd, **changes)


def test_trials_say_what_processes_differ_by() -> None:
    loud = one(Pair(trialled(100, 0.03), trialled(103, 0.03)))
    quiet = one(Pair(trialled(100, 0.001), trialled(103, 0.001)))
    assert loud.verdict is Verdict.AMBIGUOUS and quiet.verdict is Verdict.SLOWER
    assert loud.floor is not None and quiet.floor is not None and loud.floor > 0.03 > 0.005 > quiet.floor >= 0.002


def test_two_trials_that_agree_by_chance_prove_little() -> None:
    lucky = one(Pair(trialled(100, 0.01, trials=2), trialled(102, 0.0, trials=2)))
    assert lucky.verdict is Verdict.AMBIGUOUS


def test_trials_of_nothing_alarm_rarely() -> None:
    random = np.random.default_rng(13)
    alarms = 0
    for _ in range(2000):
        sides = []
        for _ in range(2):
            levels = 100 * (1 + random.normal(0, 0.01, 3))
            rsd = float(levels.std(ddof=1) / levels.mean())
            sides.append(trialled(float(np.median(levels)), rsd, trials=3))
        alarms += one(Pair(*sides)).verdict in ALARMS
    assert alarms <= 20


TWICE_ASSUMED = 2 * GPU.assumed / 1.96 / math.sqrt(2)
FEW_TRIALS = [(2, 2), (2, 5), (1, 5), (5, 1), (5, 5)]


@pytest.mark.parametrize(
    ("backend", "apart", "trials"),
    [("cuda", TWICE_ASSUMED, trials) for trials in FEW_TRIALS]
    + [("host", 0.17, trials) for trials in [(1, 1), *FEW_TRIALS]],
)
def test_few_trials_of_nothing_alarm_rarely_too(backend: str, apart: float, trials: tuple[int, int]) -> None:
    """Processes differ by twice what is assumed, which the trials show: the side of one process has it, too. On a CPU
    by what was seen there."""
    random = np.random.default_rng(17)
    alarms = 0
    for _ in range(2000):
        sides = []
        for count in trials:
            levels = 1000 * np.exp(random.normal(0, apart, count))
            level = float(np.median(levels))
            if count == 1:
                sides.append(measured([level * (1 + number / 1e6) for number in range(-10, 11)], backend=backend))
            else:
                rsd = float(levels.std(ddof=1) / levels.mean())
                sides.append(trialled(level, rsd, trials=count, backend=backend))
        alarms += one(Pair(*sides)).verdict in ALARMS
    assert alarms <= 40


def test_one_side_may_have_trials_and_the_other_samples() -> None:
    single = measured([100.0 + number / 100 for number in range(20)])
    apart = one(Pair(single, trialled(103, 0.001)))
    assert apart.verdict is Verdict.SLOWER and apart.floor is not None and 0.0035 < apart.floor < 0.005
    assert one(Pair(single, trialled(103, 0.03))).verdict is Verdict.AMBIGUOUS


def test_a_difference_surely_below_the_tolerance_is_none() -> None:
    pair = Pair(trialled(100, 0.0005), trialled(100.7, 0.0005))
    assert one(pair).verdict is Verdict.SAME
    assert one(pair, tolerance=0.005).verdict is Verdict.SLOWER


def test_times_under_another_clock_count_where_cycles_agree() -> None:
    then = trialled(100, 0.001, sm_clock_mhz=1980.0)
    only_clock = one(Pair(then, trialled(110, 0.001, sm_clock_mhz=1800.0)))
    assert only_clock.verdict is Verdict.AMBIGUOUS
    assert only_clock.reason == "clocks differ (1980 and 1800 MHz): SLOWER in time, SAME in cycles"
    both = one(Pair(then, trialled(130, 0.001, sm_clock_mhz=1800.0)))
    assert both.verdict is Verdict.SLOWER and both.effect_cycles == pytest.approx(1.3 * 1800 / 1980 - 1)
    alike = one(Pair(then, trialled(110, 0.001, sm_clock_mhz=1975.0)))
    assert alike.verdict is Verdict.SLOWER and alike.effect_cycles is None


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"status": Status.INCORRECT, "message": "row 3"}, "the candidate is INCORRECT: row 3"),
        ({"time_us": None}, "the candidate was not timed"),
        ({"backend": "host"}, "backends: cuda and host"),
        ({"method": "host_clock"}, "method of measurement: cuda_events and host_clock"),
        ({"mode": "hot"}, "mode of measurement: cold and hot"),
        ({"device": "NVIDIA H100"}, "devices: NVIDIA H200 and NVIDIA H100 (across=gpu compares them all the same)"),
        ({"bytes_moved": 2e6}, "the work changed: bytes moved 1e+06 and 2e+06"),
        ({"flops": 5.0}, "the work changed: FLOPs 4 and 5"),
    ],
)
def test_what_was_not_measured_alike_is_refused(changes: dict[str, Any], told: str) -> None:
    then = measured([100.0] * 10, bytes_moved=1e6, flops=4.0)
    found = one(Pair(then, replace(then, **changes)))
    assert (found.verdict, found.reason, found.effect) == (Verdict.INCOMPARABLE, told, None)


def test_another_gpu_is_compared_when_told() -> None:
    then = measured([100.0] * 10)
    found = one(Pair(then, measured([90.0] * 10, device="NVIDIA H100")), across_gpus=True)
    assert found.verdict is Verdict.FASTER


def test_cycles_of_two_kinds_of_gpu_are_not_compared() -> None:
    then = trialled(100, 0.001, sm_clock_mhz=1980.0)
    found = one(Pair(then, trialled(90, 0.001, sm_clock_mhz=2200.0, device="NVIDIA L40S")), across_gpus=True)
    assert (found.verdict, found.effect_cycles, found.reason) == (Verdict.FASTER, None, "")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"quality": Quality.UNSTABLE}, "candidate: UNSTABLE: its spread had not settled"),
        ({"quality": Quality.THROTTLED}, "candidate: THROTTLED: the GPU held its clock down"),
        ({"method": "", "mode": ""}, "candidate: how it was timed was not filed then"),
        ({"low": None, "high": None, "samples": 5}, "candidate: too few samples for an interval (5;"),
    ],
)
def test_what_cannot_be_believed_is_ambiguous_however_far_apart(changes: dict[str, Any], told: str) -> None:
    then = measured([100.0] * 10)
    found = one(Pair(then, replace(then, time_us=150.0, **changes)))
    assert found.verdict is Verdict.AMBIGUOUS and found.reason.startswith(told)
    assert found.effect == pytest.approx(0.5)


def test_nothing_gives_nothing() -> None:
    assert judge([]) == []


def test_two_runs_of_a_short_kernel_differ_by_more_than_a_long_one() -> None:
    def found(time_us: float, change: float) -> Verdict:
        return one(Pair(measured([time_us] * 40), measured([time_us * (1 + change)] * 40))).verdict

    assert found(12.0, 0.011) is Verdict.AMBIGUOUS  # 0.13 us: so far apart are two processes of the same code
    assert found(12.0, 0.06) is Verdict.SLOWER
    assert found(100.0, 0.011) is Verdict.SLOWER
    assert found(500.0, 0.001) is Verdict.SAME


def test_a_second_mode_of_few_samples_leaves_the_median_alone() -> None:
    random = np.random.default_rng(11)

    def modes(share: float, level: float = 100.0) -> Measured:
        upper = np.arange(60) % 10 < 10 * share
        return measured(series(random, "normal", 0.001, 60, level) * np.where(upper, 1.06, 1.0))

    for share, verdict in ((0.2, Verdict.SLOWER), (0.4, Verdict.AMBIGUOUS)):
        then, now = modes(share), modes(share, 105.0)
        assert "bimodal" in then.flags and "bimodal" in now.flags
        assert one(Pair(then, now)).verdict is verdict
