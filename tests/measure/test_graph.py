"""Graphs of many steps: how many they hold, on how many copies of the inputs, and what a sample is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from runner.measure import graph
from runner.measure.loop import measure
from runner.measure.settings import MeasureSettings
from runner.result.model import Series

SETTINGS = MeasureSettings(modes=("graph",), fixed=2, warmup=1, graph_batch_time_s=0.001)


class FakeGraph:
    def __init__(self, source: FakeSteps, steps: int) -> None:
        self.source, self.steps = source, steps

    def launch(self, stream: Any) -> None:
        self.source.log.append(f"replay {self.steps}")
        stream.device.queue.append(self.steps * self.source.step_us)

    def free(self) -> None:
        self.source.alive -= 1


class FakeSteps:
    """Steps of a known time, with memory for so many copies."""

    def __init__(self, step_us: float, wanted: int = 1, room: int = 1000, launches: int = 1) -> None:
        self.step_us, self.wanted, self.room, self.launches = step_us, wanted, room, launches
        self.copies, self.alive = 1, 0
        self.log: list[str] = []

    def copy(self, copies: int) -> int:
        self.copies = min(copies, self.room)
        self.log.append(f"copy {self.copies}")
        return self.copies

    @property
    def warm(self) -> bool:
        return self.copies < self.wanted

    def graph(self, steps: int) -> FakeGraph:
        self.alive += 1
        return FakeGraph(self, steps)


def run(bench: Any, source: FakeSteps | None, settings: MeasureSettings = SETTINGS) -> tuple[list[Series], Any]:
    made = bench()
    series = measure(
        [made.stream],
        made.step,
        settings,
        host_timed=False,
        flush=[],
        clock=made.clock,
        graph=source,  # type: ignore[arg-type]
    )
    return series, made


def test_a_replay_fills_its_time_and_a_sample_is_one_step(bench: Any) -> None:
    source = FakeSteps(step_us=25.0)
    (series,), made = run(bench, source)
    assert (series.mode, series.method, series.batch, series.rotated) == ("graph", "cuda_events", 40, 1)
    assert series.samples_us == pytest.approx([25.0, 25.0])
    assert not series.warm
    assert source.log[-4:] == ["copy 1", "replay 40", "replay 40", "replay 40"]  # the first one is untimed
    assert source.alive == 0
    assert "hold" not in made.log


def test_every_copy_is_used_as_often_as_any_other(bench: Any) -> None:
    source = FakeSteps(step_us=25.0, wanted=12)
    (series,), _ = run(bench, source)
    assert (series.rotated, series.batch) == (12, 36)


def test_a_graph_grows_for_its_copies(bench: Any) -> None:
    source = FakeSteps(step_us=25.0, wanted=100)
    (series,), _ = run(bench, source)
    assert (series.rotated, series.batch, series.warm) == (100, 100, False)


def test_a_long_step_is_not_repeated_without_end_for_its_inputs(bench: Any) -> None:
    source = FakeSteps(step_us=5000.0, wanted=100)
    (series,), _ = run(bench, source)
    assert (series.rotated, series.batch, series.warm) == (8, 8, True)


def test_no_memory_for_copies_leaves_the_caches_warm(bench: Any) -> None:
    source = FakeSteps(step_us=25.0, wanted=10, room=3)
    (series,), _ = run(bench, source)
    assert (series.rotated, series.batch, series.warm) == (3, 39, True)


def test_a_graph_has_a_bounded_number_of_launches(bench: Any) -> None:
    source = FakeSteps(step_us=0.5, launches=40)
    (series,), _ = run(bench, source)
    assert series.batch == graph.MAX_NODES // 40
    (series,), _ = run(bench, FakeSteps(step_us=0.5, launches=8, wanted=300))
    assert (series.rotated, series.batch) == (300, 300), "twice would be 4800 launches"


def test_the_rules_stop_it_as_any_other_series(bench: Any) -> None:
    settings = replace(SETTINGS, fixed=0, min_samples=2, min_time_s=0.005)
    (series,), _ = run(bench, FakeSteps(step_us=25.0), settings)
    assert (series.stop_reason, len(series.samples_us)) == ("rsd", 5)


def test_without_steps_the_mode_is_left_out(bench: Any) -> None:
    assert run(bench, None)[0] == []
