"""One experiment on the host backend: the exact order of operations, and what is left behind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from runner.backend.host import HostBackend
from runner.backend.host.stream import HostStream
from runner.config.schema import Kernel
from runner.measure.flush import Flusher
from runner.measure.settings import MeasureSettings
from runner.plan.model import Plan
from runner.plan.planner import make_plan
from runner.plan.target import target_of
from runner.profile import nvtx
from runner.result.model import Status
from runner.worker.experiment import Experiment
from runner.worker.protocol import STEPS_SUFFIX, ProfileRequest
from runner.workload.declared import DeclaredWorkload
from tests.kernels.hosted import programs
from tests.plan.families import config

FAMILIES = Path(__file__).resolve().parents[1] / "families"
SETTINGS = MeasureSettings(modes=("cold", "hot"), fixed=2, warmup=1, hot_batch_time_s=1e-6)
FLUSHED = ["flush_kernel", "hold", "record", "faulty_copy", "record", "release"]
CHECK = ["poison", "faulty_copy", "read"]


def planned(fault: int = 0) -> Plan:
    loaded = OmegaConf.merge(OmegaConf.structured(Kernel), OmegaConf.load(FAMILIES / "kernel" / "faulty.yaml"))
    family = OmegaConf.to_object(loaded)
    assert isinstance(family, Kernel)
    family.params["fault"] = fault
    made = config(family)
    made.gpu.backend = "host"
    return make_plan(made, target_of(made.gpu), (FAMILIES / "cuda_src", FAMILIES / "references"))[0]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is asked of streams and profilers, in order."""
    seen: list[str] = []

    def spy(name: str, label: Any) -> None:
        real = getattr(HostStream, name)

        def call(self: HostStream, *arguments: Any, **how: Any) -> Any:
            seen.append(label(*arguments))
            return real(self, *arguments, **how)

        monkeypatch.setattr(HostStream, name, call)

    spy("launch", lambda function, *rest: function.name)
    spy("fill", lambda buffer, byte: "poison" if byte == 0xFF else "zero")
    spy("read", lambda *rest: "read")
    for plain in ("hold", "release", "record"):
        spy(plain, lambda *rest, name=plain: name)
    monkeypatch.setattr(nvtx, "push", lambda name: seen.append(f"[{name}"))
    monkeypatch.setattr(nvtx, "pop", lambda: seen.append("]"))
    monkeypatch.setattr(HostBackend, "start_profiler", lambda self: seen.append("start_profiler"))
    monkeypatch.setattr(HostBackend, "stop_profiler", lambda self: seen.append("stop_profiler"))
    return seen


@contextmanager
def prepared(plan: Plan) -> Iterator[Experiment]:
    backend = HostBackend()
    flushers: dict[int, Flusher] = {}
    experiment = Experiment(backend, [backend.open(0)], plan, programs(plan), flushers)
    experiment.prepare()
    try:
        yield experiment
    finally:
        experiment.close()
        for flusher in flushers.values():
            flusher.close()


def test_the_order_of_operations_in_one_experiment(log: list[str]) -> None:
    with prepared(planned()) as experiment:
        assert log == ["[decode/faulty/prepare", "fill_uniform_float32", "]"]
        log.clear()
        outcome, healthy = experiment.run("plain", SETTINGS)
        log = log[:]
    assert (outcome.status, healthy) == (Status.PASSED, True)
    check = ["[decode/faulty/plain/check", *CHECK, "]"]
    assert log[: len(check)] == check
    assert log[-len(check) :] == check
    hot = log[len(check) : -len(check)]
    assert hot[:2] == ["zero", "[decode/faulty/plain"]  # the flush buffer is written before anything is measured
    assert hot[2:3] == ["faulty_copy"]  # warm-up, outside hold and events
    assert hot[3:15] == FLUSHED * 2
    assert "flush_kernel" not in hot[15:]  # hot
    assert hot[-1] == "]"


def test_a_profiled_run_captures_the_hot_steps_only(log: list[str]) -> None:
    with prepared(planned()) as experiment:
        log.clear()
        experiment.profile("plain", ProfileRequest(steps=3))
        log = log[:]
    assert log == [
        "faulty_copy",
        "[runner_capture",
        "start_profiler",
        "[decode/faulty/plain",
        *["faulty_copy"] * 3,
        "]",
        "stop_profiler",
        "]",
    ]


def test_steps_for_a_second_opinion_are_single_and_cold(log: list[str], tmp_path: Path) -> None:
    request = ProfileRequest(steps=3, record=str(tmp_path), flushed=True)
    with prepared(planned()) as experiment:
        log.clear()
        assert experiment.profile("plain", request) == []
        asked = [entry for entry in log if entry != "zero"]
    assert asked == ["faulty_copy", *["flush_kernel", "hold", "faulty_copy", "release"] * 3]
    steps = json.loads((tmp_path / f"plain{STEPS_SUFFIX}").read_text())
    assert [[(event["kind"], event["name"]) for event in step] for step in steps] == [
        [("range", "step"), ("launch", "faulty_copy")]
    ] * 3


def test_times_taken_under_a_tool_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with prepared(planned()) as experiment:
        clean, _ = experiment.run("plain", SETTINGS)
        monkeypatch.setenv("NVTX_INJECTION64_PATH", "/opt/tool.so")
        watched, _ = experiment.run("plain", SETTINGS)
    assert clean.warnings == []
    assert watched.warnings == ["an NVTX injection library was attached: these times are no measurement"]


def test_a_graph_is_measured_on_copies_that_are_given_back() -> None:
    with prepared(planned()) as experiment:
        free = experiment._devices[0].free_bytes
        experiment.run("plain", SETTINGS)
        before = free()
        outcome, _ = experiment.run("plain", replace(SETTINGS, modes=("graph",), graph_batch_time_s=1e-3))
        assert free() == before
    (series,) = outcome.series
    assert (series.mode, outcome.warnings) == ("graph", [])
    assert series.rotated > 1
    assert series.batch % series.rotated == 0


def test_a_variant_without_a_graph_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with prepared(planned()) as experiment:
        monkeypatch.setattr(DeclaredWorkload, "host_timed", True)
        outcome, _ = experiment.run("plain", replace(SETTINGS, modes=("cold", "graph")))
    assert [series.mode for series in outcome.series] == ["host"]
    assert outcome.warnings == ["no time_graph_us: a step waits for the device itself"]


def test_a_wrong_variant_is_never_timed(log: list[str]) -> None:
    with prepared(planned(fault=3)) as experiment:
        log.clear()
        outcome, healthy = experiment.run("plain", SETTINGS)
    assert (outcome.status, healthy) == (Status.INCORRECT, True)
    assert outcome.series == []
    assert log.count("faulty_copy") == 1


def test_the_events_of_a_step_lie_within_its_range() -> None:
    with prepared(planned()) as experiment:
        outcome, _ = experiment.run("plain", SETTINGS)
    kinds = [(event.kind, event.name) for event in outcome.events]
    assert kinds == [("range", "decode/faulty/plain"), ("launch", "faulty_copy")]
    outer, inner = outcome.events
    assert outer.start_us == 0.0 <= inner.start_us <= inner.end_us <= outer.end_us


def test_everything_is_freed() -> None:
    backend = HostBackend()
    device = backend.open(0)
    before = device.free_bytes()
    plan = planned()
    experiment = Experiment(backend, [device], plan, programs(plan), {})
    experiment.prepare()
    assert device.free_bytes() < before
    experiment.close()
    assert device.free_bytes() == before
