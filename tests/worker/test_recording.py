"""Recording a block: what the host backend saw, on one clock, under the block's range."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from runner.backend.cuda import cupti
from runner.result.model import TraceEvent
from runner.worker.recording import Recorder, recorded, traced


class Told:
    """A source with given events and given times."""

    def __init__(self, times: list[float], events: list[TraceEvent]) -> None:
        self._times = iter(times)
        self._events = events

    def now_us(self) -> float:
        return next(self._times)

    def events(self) -> list[TraceEvent]:
        return self._events


def work(start: float, end: float) -> TraceEvent:
    return TraceEvent("launch", f"k{start:g}", 0, 7, start, end)


def test_events_of_the_block_are_kept_from_its_start() -> None:
    source = Told([100.0, 200.0], [work(150, 160), work(99, 104), work(80, 90), work(195, 201), work(200, 210)])
    with Recorder(source).range("decode/demo/a") as events:
        assert events == []
    scope, *rest = events
    assert (scope.kind, scope.name, scope.start_us, scope.end_us) == ("range", "decode/demo/a", 0.0, 100.0)
    assert scope.thread == threading.get_native_id()
    # Those that overhang the block by a clock's error are the block's own.
    assert [(event.start_us, event.end_us) for event in rest] == [(-1, 4), (50, 60), (95, 101)]


def test_nothing_is_recorded_unasked() -> None:
    backend: Any = SimpleNamespace(name="cuda", trace=None)
    for opened in (traced(backend, False), recorded(backend, False)):
        with opened as recorder, recorder.range("a") as events:
            assert backend.trace is None
        assert events == []


def test_the_host_backend_traces_itself_for_the_block_only() -> None:
    backend: Any = SimpleNamespace(name="host", trace=None)
    with recorded(backend) as recorder, recorder.range("a") as events:
        assert backend.trace == []
    assert backend.trace is None
    assert [event.kind for event in events] == ["range"]


def test_a_gpu_is_recorded_through_cupti_and_only_when_the_run_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def activities() -> Any:
        yield Told([0.0, 10.0], [work(1, 2)])

    monkeypatch.setattr(cupti, "activities", activities)
    backend: Any = SimpleNamespace(name="cuda", trace=None)
    with recorded(backend) as recorder, recorder.range("a") as events:
        pass
    assert [event.kind for event in events] == ["range", "launch"]
    monkeypatch.setattr(cupti, "activities", None)
    with traced(backend) as recorder, recorder.range("a") as events:
        pass
    assert [event.kind for event in events] == ["range"]
