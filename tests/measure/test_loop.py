"""Order of operations, exactly, and what the series say about themselves."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import Any

import pytest

from runner.measure import host_clock
from runner.measure.cold import measure_cold
from runner.measure.energy import StepEnergy
from runner.measure.flush import Flusher
from runner.measure.loop import measure
from runner.measure.settings import MeasureSettings
from runner.measure.sm_clock import SmClock
from runner.measure.stopping import Stopper

SETTINGS = MeasureSettings(modes=("cold",), fixed=2, warmup=3, hot_batch_time_s=0.001)
WARM_UP = ["step", "step", "step", "sync"]


def run(bench: Any, settings: MeasureSettings, **options: Any) -> Any:
    flush = Flusher(bench.device, bench.flush, bench.stream)
    bench.log.clear()
    options = {"host_timed": False, "flush": [flush], "clock": bench.clock, **options}
    return measure([bench.stream], bench.step, settings, **options)


def test_cold_order(bench: Any) -> None:
    made = bench()
    run(made, SETTINGS)
    sample = ["flush", "hold", "record start", "step", "record stop", "release", "sync"]
    assert made.log == WARM_UP + sample + sample


def test_the_stamps_of_the_clock_are_outside_flush_and_events(bench: Any) -> None:
    made = bench()
    clock = SmClock(made.device, "stamp", made.stream)  # type: ignore[arg-type]
    (series,) = run(made, SETTINGS, clocks=[clock])
    sample = ["stamp", "flush", "hold", "record start", "step", "record stop", "release", "stamp", "read", "sync"]
    assert made.log == WARM_UP + sample + sample
    assert series.samples_us == [100.0] * 2
    assert series.clock_mhz == pytest.approx([1000.0] * 2)


def test_without_stamps_no_clock_is_claimed(bench: Any) -> None:
    (series,) = run(bench(), SETTINGS)
    assert (series.clock_mhz, series.dropped, series.throttled) == ([], 0, 0)


def slowed(bench: Any, begin_us: float, end_us: float, settings: MeasureSettings = SETTINGS) -> tuple[Any, list[float]]:
    """The series of a device that runs at a half of its clock for a while, and the pauses made in it."""
    made, pauses = bench(), []
    made.device.mhz = lambda now_us: 500.0 if begin_us <= now_us < end_us else 1000.0
    clock = SmClock(made.device, "stamp", made.stream)  # type: ignore[arg-type]

    def pause(seconds: float) -> None:
        pauses.append(seconds)

    flush = Flusher(made.device, made.flush, made.stream)
    series = measure_cold(
        [made.stream], made.step, settings, [flush], Stopper(settings, made.clock), lambda *told: None, [clock], pause
    )
    return series, pauses


def test_throttled_samples_are_dropped_after_a_rest(bench: Any) -> None:
    series, pauses = slowed(bench, 1200, 1560, replace(SETTINGS, fixed=12))
    assert (series.dropped, series.throttled, series.stop_reason) == (3, 0, "fixed")
    assert len(series.samples_us) == 12  # none is missing for it
    assert series.clock_mhz == pytest.approx([1000.0] * 12)
    assert pauses == [SETTINGS.throttle_pause_s] * 3


def test_a_device_that_stays_slow_is_measured_all_the_same(bench: Any) -> None:
    series, _ = slowed(bench, 1200, 1e9, replace(SETTINGS, fixed=40))
    assert len(series.samples_us) == len(series.clock_mhz) == 40
    assert series.throttled == 30
    assert series.dropped == 39  # a half of all that were taken


def test_dropped_samples_take_of_the_time(bench: Any) -> None:
    series, _ = slowed(bench, 1200, 1e9, replace(SETTINGS, fixed=40, max_time_s=1.5e-3))
    assert series.stop_reason == "max_time"
    assert (len(series.samples_us), series.dropped) == (10, 3)


def test_a_locked_clock_says_what_is_normal_and_one_sample_always_stays(bench: Any) -> None:
    slow_from_the_start = replace(SETTINGS, fixed=40, max_time_s=3e-4, lock_clocks=1000)
    series, _ = slowed(bench, 0, 1e9, slow_from_the_start)
    assert (len(series.samples_us), series.dropped, series.throttled) == (1, 2, 1)


def test_one_sample_stays_also_where_the_time_is_up_at_that_very_moment(bench: Any) -> None:
    class UpSinceTheFirstQuestion(Stopper):
        asked = 0

        @property
        def out_of_time(self) -> bool:
            self.asked += 1
            return self.asked > 1

    made, settings = bench(), replace(SETTINGS, fixed=40, lock_clocks=2000)
    clock = SmClock(made.device, "stamp", made.stream)  # type: ignore[arg-type]
    flush = [Flusher(made.device, made.flush, made.stream)]
    stopper = UpSinceTheFirstQuestion(settings, made.clock)
    rest: list[float] = []
    series = measure_cold(
        [made.stream],
        made.step,
        settings,
        flush,
        stopper,
        lambda *told: made.device.pass_time(1e8),
        [clock],
        rest.append,
    )
    assert (len(series.samples_us), series.dropped, len(rest)) == (1, 1, 1)


def test_no_share_keeps_every_sample(bench: Any) -> None:
    series, pauses = slowed(bench, 1200, 1e9, replace(SETTINGS, fixed=40, throttle_share=0.0))
    assert (series.dropped, series.throttled, pauses) == (0, 0, [])
    assert min(series.clock_mhz) == pytest.approx(500.0)


def test_cold_order_without_hold_never_waits_between_flush_and_start(bench: Any) -> None:
    made = bench()
    (series,) = run(made, replace(SETTINGS, hide_latency=False))
    assert series.method == "cuda_events_with_launch"
    sample = ["flush", "record start", "step", "record stop", "sync"]
    assert made.log == WARM_UP + sample + sample


def test_hot_order(bench: Any) -> None:
    made = bench(step_us=250.0)
    (series,) = run(made, replace(SETTINGS, modes=("hot",)))
    calibration = ["record start", "step", "record stop", "sync"]
    batch = ["record start", "step", "step", "step", "step", "record stop", "sync"]
    assert made.log == WARM_UP + calibration + batch + batch
    assert series.batch == 4


def test_host_timed_order(bench: Any) -> None:
    made = bench()
    (series,) = run(made, replace(SETTINGS, modes=("cold", "hot")), host_timed=True, flush=[])
    assert made.log == WARM_UP + ["step", "sync"] * 2
    assert (series.mode, series.method) == ("host", "host_clock")


def test_no_warm_up_is_no_operation(bench: Any) -> None:
    made = bench()
    run(made, replace(SETTINGS, warmup=0, fixed=1))
    assert made.log == ["flush", "hold", "record start", "step", "record stop", "release", "sync"]


def test_warm_up_steps_are_in_no_sample(bench: Any) -> None:
    made = bench(step_us=[9000.0, 9000.0, 9000.0, 10.0, 20.0])
    (series,) = run(made, SETTINGS)
    assert series.samples_us == [10.0, 20.0]


def test_modes_follow_in_order_after_one_warm_up(bench: Any) -> None:
    made = bench()
    series = run(made, replace(SETTINGS, modes=("hot", "cold", "host"), fixed=1, hot_batch_time_s=1e-4))
    assert [item.mode for item in series] == ["hot", "cold", "host"]
    assert made.log[:4] == WARM_UP
    assert made.log.count("sync") == 5  # warm-up, calibration, and one sample each


def test_cold_series(bench: Any) -> None:
    made = bench(step_us=100.0)
    (series,) = run(made, replace(SETTINGS, fixed=5))
    assert (series.mode, series.method, series.batch) == ("cold", "cuda_events", 1)
    assert series.samples_us == [100.0] * 5  # the flush is outside
    assert series.stop_reason == "fixed"
    assert series.flush_bytes == 100 << 20
    assert series.wall_s == pytest.approx(5 * 120e-6)


def test_the_method_names_the_backend(bench: Any) -> None:
    made = bench()
    made.device.info.backend = "host"
    assert run(made, SETTINGS)[0].method == "host_events"


def test_hot_sample_is_the_time_of_one_step(bench: Any) -> None:
    made = bench(step_us=3.0)
    (series,) = run(made, replace(SETTINGS, modes=("hot",), hot_batch_time_s=0.01, fixed=3))
    assert series.samples_us == pytest.approx([3.0] * 3)
    assert series.batch == round(10_000 / 3)
    assert series.flush_bytes == 0


def test_hot_batch_is_one_for_a_long_step_without_calibration_when_cold_knew_it(bench: Any) -> None:
    made = bench(step_us=5000.0)
    cold, hot = run(made, replace(SETTINGS, modes=("cold", "hot"), fixed=2))
    assert (cold.batch, hot.batch) == (1, 1)
    assert made.steps == 3 + 2 + 2


def test_a_step_of_no_duration_ends(bench: Any) -> None:
    made = bench(step_us=0.0)
    settings = replace(SETTINGS, modes=("hot",), fixed=1)
    (series,) = run(made, settings)
    assert series.samples_us == [0.0]


def test_calibration_is_within_the_hard_limit(bench: Any) -> None:
    made = bench(step_us=10.0)
    settings = replace(SETTINGS, modes=("hot",), fixed=0, max_time_s=1e-4, hot_batch_time_s=10.0)
    (series,) = run(made, settings)
    assert series.stop_reason == "max_time"
    assert len(series.samples_us) == 1


def test_the_rules_stop_a_hot_series_on_accumulated_batches(bench: Any) -> None:
    settings = MeasureSettings(modes=("hot",), min_samples=2, min_time_s=0.05, hot_batch_time_s=0.01)
    (series,) = run(bench(step_us=100.0), settings)
    assert series.stop_reason == "rsd"
    assert len(series.samples_us) == 5  # of 100 steps of 100 µs each


def test_a_refused_step_releases_the_stream(bench: Any) -> None:
    made = bench()

    def refuse() -> None:
        raise RuntimeError("refused")

    with pytest.raises(RuntimeError, match="refused"):
        measure(
            [made.stream],
            refuse,
            replace(SETTINGS, warmup=0),
            host_timed=False,
            flush=[Flusher(made.device, made.flush, made.stream)],
            clock=made.clock,
        )
    assert made.log[-3:] == ["hold", "record start", "release"]


def test_cold_without_a_flush_buffer_is_refused_before_anything_runs(bench: Any) -> None:
    made = bench()
    with pytest.raises(ValueError, match="'cold', which needs a flush buffer"):
        run(made, SETTINGS, flush=[])
    assert made.log == []


def test_every_sample_is_told_after_it_was_taken(bench: Any) -> None:
    made = bench()
    told: list[tuple[str, float]] = []

    def on_sample(mode: str, sample_us: float) -> None:
        assert made.log[-1] == "sync"
        told.append((mode, sample_us))

    run(made, replace(SETTINGS, modes=("cold", "hot"), hot_batch_time_s=1e-4), on_sample=on_sample)
    assert told == [("cold", 100.0)] * 2 + [("hot", 100.0)] * 2
    told.clear()
    run(made, SETTINGS, host_timed=True, on_sample=on_sample)
    assert [mode for mode, _ in told] == ["host", "host"]


def test_host_clock_counts_step_and_wait(bench: Any) -> None:
    made = bench(step_us=[40.0, 60.0])
    series = host_clock.measure_host(
        [made.stream],
        made.step,
        Stopper(replace(SETTINGS, fixed=2), made.clock),
        lambda mode, sample: None,
        timer_ns=lambda: round(made.device.now_us * 1000),
    )
    assert series.samples_us == pytest.approx([40.0, 60.0])
    assert series.launch_us == []


def test_of_a_step_that_only_queues_the_launch_is_told_apart(bench: Any) -> None:
    made = bench(step_us=[40.0, 60.0])

    def step() -> None:
        made.step()
        made.device.now_us += 7.0  # what queueing costs the host

    series = host_clock.measure_host(
        [made.stream],
        step,
        Stopper(replace(SETTINGS, fixed=2), made.clock),
        lambda mode, sample: None,
        timer_ns=lambda: round(made.device.now_us * 1000),
        enqueues=True,
    )
    assert series.samples_us == pytest.approx([47.0, 67.0])
    assert series.launch_us == pytest.approx([7.0, 7.0])


def test_a_launch_is_measured_where_the_step_does_not_wait(bench: Any) -> None:
    (queued,) = run(bench(), replace(SETTINGS, modes=("host",)))
    (waited,) = run(bench(), replace(SETTINGS, modes=("host",)), host_timed=True)
    assert (len(queued.launch_us), len(waited.launch_us)) == (2, 0)


def test_the_garbage_collector_rests_and_comes_back(bench: Any) -> None:
    made = bench()
    seen: list[bool] = []
    run(made, SETTINGS, on_sample=lambda mode, sample: seen.append(gc.isenabled()))
    assert seen == [False, False]
    assert gc.isenabled()


class Meter:
    """Counts energy with the fake device's time: 2 mJ a microsecond."""

    def __init__(self, bench: Any, log: bool = True, known: bool = True) -> None:
        self._bench, self._log, self._known, self._begin = bench, log, known, 0.0

    def start(self) -> None:
        self._begin = self._bench.device.now_us
        self._bench.log.append("meter on")

    def stop(self) -> float | None:
        self._bench.log.append("meter off")
        return 2.0 * (self._bench.device.now_us - self._begin) if self._known else None


def test_energy_covers_the_hot_batches_and_nothing_else(bench: Any) -> None:
    made = bench(step_us=100.0)
    energy = StepEnergy(Meter(made))
    settings = replace(SETTINGS, modes=("cold", "hot"), fixed=1, hot_batch_time_s=3e-4)
    run(made, settings, energy=energy)
    assert energy.mj_per_step == pytest.approx(200.0)
    inside = made.log[made.log.index("meter on") + 1 : made.log.index("meter off")]
    assert inside == ["record start", "step", "step", "step", "record stop", "sync"]


@pytest.mark.parametrize(("step_us", "known"), [(100.0, False), (0.0, True)])
def test_no_energy_where_the_meter_does_not_say(bench: Any, step_us: float, known: bool) -> None:
    made = bench(step_us=step_us)
    energy = StepEnergy(Meter(made, known=known))
    run(made, replace(SETTINGS, modes=("hot",), fixed=1), energy=energy)
    assert energy.mj_per_step is None
