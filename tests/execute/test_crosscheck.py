"""The kernels' own times beside those of the events: what is asked for, and what becomes of each answer."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runner.backend.cuda import cupti
from runner.execute.crosscheck import METRIC, STEPS, crosscheck
from runner.execute.planning import Experiment
from runner.measure.settings import MeasureSettings
from runner.plan.model import Variant
from runner.profile.base import Ended, Launch, Subject
from runner.result.model import Result, Series, Status, TraceEvent
from runner.worker.protocol import STEPS_SUFFIX
from tests.plan.plans import plan_with

VARIANTS = tuple(Variant(name, (), (), 0, 0, 0, "float32") for name in ("a", "b"))
EXPERIMENT = cast(
    Experiment,
    SimpleNamespace(
        plan=plan_with(variants=VARIANTS, baseline="a"),
        config=SimpleNamespace(timeout_s=7.0),
        point=SimpleNamespace(folder=Path("job")),
        settings=MeasureSettings(),
    ),
)


def timed(variant: str, time_us: float, mode: str = "cold", status: Status = Status.PASSED) -> Result:
    made = Result("id", "k", variant, status, samples=[Series(mode, "cuda_events", [time_us])])
    made.metrics["time_us"] = time_us
    return made


class Recording:
    """Stands in for the worker: every step of a variant takes so long by its records."""

    def __init__(self, spans: dict[str, list[float]], backend: str = "cuda", ended: Ended | None = None) -> None:
        self._spans = spans
        self._backend = backend
        self._ended = ended or Ended(0)
        self.launches: list[Launch] = []

    @property
    def about(self) -> Subject:
        return Subject("worker", cast(Any, self._backend))

    def run(self, launch: Launch, timeout_s: float) -> Ended:
        assert timeout_s == 7.0
        self.launches.append(launch)
        for variant, spans in self._spans.items():
            steps = [[asdict(TraceEvent("launch", "k", 0, 7, 5.0, 5.0 + span))] if span else [] for span in spans]
            (launch.scratch / f"{variant}{STEPS_SUFFIX}").write_text(json.dumps(steps))
        return self._ended


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupti, "version", lambda: "13.0.0")
    for name in ("NSYS_PROFILING_SESSION_ID", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"):
        monkeypatch.delenv(name, raising=False)


def run(subject: Recording, *results: Result) -> None:
    crosscheck(EXPERIMENT, subject, results, lambda kind, what: None)


def test_all_variants_are_recorded_by_one_process_as_they_were_timed() -> None:
    subject, results = Recording({"a": [99.0, 100.0, 300.0], "b": [50.0]}), [timed("a", 100.0), timed("b", 50.0)]
    run(subject, *results)
    (launch,) = subject.launches
    assert [capture.variant for capture in launch.captures] == ["a", "b"]
    assert (launch.steps, launch.record, launch.flushed) == (STEPS, True, True)
    assert [result.metrics[METRIC] for result in results] == [100.0, 50.0]
    assert [result.warnings for result in results] == [[], []]
    assert not launch.scratch.exists()


@pytest.mark.parametrize(("backend", "source"), [("cuda", "CUPTI sees"), ("host", "the host backend's own trace has")])
def test_another_time_is_a_doubt_with_its_source_and_replaces_nothing(backend: str, source: str) -> None:
    result = timed("a", 100.0)
    run(Recording({"a": [60.0] * 20}, backend), result)
    assert (result.metrics["time_us"], result.metrics[METRIC], result.status) == (100.0, 60.0, Status.PASSED)
    assert result.warnings[0].startswith(f"{source} 60 µs")


def test_without_cupti_the_run_passes_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupti, "version", lambda: "")
    subject, result = Recording({}), timed("a", 100.0)
    run(subject, result)
    assert subject.launches == [] and result.status is Status.PASSED
    assert result.warnings[0].startswith("measure.crosscheck=true: cupti-python is not installed")


def test_the_host_backend_needs_no_cupti(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupti, "version", lambda: "")
    result = timed("a", 100.0)
    run(Recording({"a": [100.0]}, "host"), result)
    assert (result.metrics[METRIC], result.warnings) == (100.0, [])


def test_under_a_tool_nothing_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NSYS_PROFILING_SESSION_ID", "1")
    result = timed("a", 100.0)
    run(Recording({"a": [100.0]}), result)
    assert "nsys is attached" in result.warnings[0] and METRIC not in result.metrics


def test_only_cold_times_of_what_passed_are_compared() -> None:
    subject = Recording({})
    host, wrong = timed("a", 100.0, "host"), timed("b", 100.0, status=Status.INCORRECT)
    run(subject, host, wrong)
    assert subject.launches == []
    assert host.warnings == ["measure.crosscheck=true: time_us is of host samples, and only cold ones can be compared"]
    assert wrong.warnings == []


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (Ended(None, timed_out=True), "did not end within timeout_s=7"),
        (Ended(0, problem="CUPTI cannot start: busy"), "CUPTI cannot start: busy"),
        (Ended(1, output="line\nlast line\n"), "ended with code 1 (last line)"),
    ],
)
def test_a_process_that_left_nothing_says_why(ended: Ended, words: str) -> None:
    result = timed("a", 100.0)
    run(Recording({}, ended=ended), result)
    assert words in result.warnings[0] and "nothing was recorded" in result.warnings[0]
    assert result.status is Status.PASSED


def test_records_without_work_are_no_time() -> None:
    result = timed("a", 100.0)
    run(Recording({"a": [0.0, 0.0]}), result)
    assert result.warnings == ["measure.crosscheck=true: no kernel and no copy was recorded in 2 steps"]
    assert METRIC not in result.metrics
