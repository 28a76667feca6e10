"""Clocks are locked while the driver holds the devices' locks, and let go before it gives them back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock

import pytest
from rich.console import Console

from runner.backend.base import DeviceInfo
from runner.backend.clock_lock import ClockRefused
from runner.config.errors import ConfigError
from runner.config.points import Point
from runner.execute import clocks, runs
from runner.execute.about import about
from runner.execute.clocks import locked_clocks
from runner.execute.planning import Experiment, plan
from runner.plan import wire
from runner.result.metrics import Ceilings
from runner.result.model import Result
from runner.worker import locks
from runner.worker.session import Session
from tests.kernels.hosted import programs
from tests.kernels.plans import H200, HOST, config
from tests.worker.test_experiment import SETTINGS, planned


def info(uuid: str) -> DeviceInfo:
    return DeviceInfo(0, "NVIDIA H200", uuid, "cuda", "sm_90a", 132, 60 << 20, 0, 1, 0)


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    monkeypatch.setenv("RUNNER_LOCKS", str(tmp_path / "locks"))
    made = Experiment(Point(config("kv_quant"), (), tmp_path / "job"), devices=(info("GPU-a"), info("GPU-b")))
    made.config.measure.lock_clocks = 1500
    plan(made, H200)
    assert made.plan is not None
    return made


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    seen: list[str] = []

    @contextmanager
    def held(devices: Sequence[DeviceInfo], waiting: Any) -> Iterator[None]:
        seen.append(f"hold {' '.join(device.uuid for device in devices)}")
        yield
        seen.append("give back")

    @contextmanager
    def locked(uuids: Sequence[str], mhz: int) -> Iterator[None]:
        seen.append(f"lock {' '.join(uuids)} {mhz}")
        try:
            yield
        finally:
            seen.append("let go")

    monkeypatch.setattr(locks, "hold", held)
    monkeypatch.setattr(clocks, "locked", locked)
    return seen


def test_the_clocks_are_locked_within_the_devices_locks(experiment: Experiment, log: list[str]) -> None:
    with locked_clocks(experiment, lambda kind, what: None):
        assert log == ["hold GPU-a GPU-b", "lock GPU-a GPU-b 1500"]
        assert experiment.held
    assert log[2:] == ["let go", "give back"]
    assert not experiment.held


def test_the_second_opinion_is_taken_under_the_clock_of_the_times(
    experiment: Experiment, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Steps:
        """Stands in for the run of the experiment."""

        results: tuple[Result, ...] = ()

        def measure(self, *given: Any) -> list[Result]:
            log.append("measure")
            return []

        def crosscheck(self, built: Any) -> None:
            log.append("crosscheck")

        def profile(self, built: Any) -> None:
            log.append("profile")

        def finish(self) -> None:
            log.append("finish")

    ceilings = SimpleNamespace(of=lambda *given: Ceilings(), keep=lambda *given: None)
    lane = SimpleNamespace(pool=None, ceilings=ceilings, stopped=lambda: False)
    monkeypatch.setattr(runs, "Single", lambda *given: Steps())
    made = runs.Runs([experiment], "s", cast(Any, None), Console())
    made._one(experiment, cast(Any, lane), cast(Any, MagicMock()))
    assert log[1:] == ["lock GPU-a GPU-b 1500", "measure", "crosscheck", "let go", "give back", "profile", "finish"]


def test_nothing_happens_unless_it_is_asked_for(experiment: Experiment, log: list[str]) -> None:
    experiment.settings = replace(experiment.settings, lock_clocks=0)
    with locked_clocks(experiment, lambda kind, what: None):
        assert not experiment.held
    assert log == []


def test_a_refusal_names_the_key_and_gives_the_devices_back(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def refused(uuids: Sequence[str], mhz: int) -> Iterator[None]:
        raise ClockRefused("NVML: Insufficient Permissions")
        yield

    monkeypatch.setattr(clocks, "locked", refused)
    with pytest.raises(ConfigError) as error, locked_clocks(experiment, lambda kind, what: None):
        raise AssertionError("must not run")
    assert str(error.value) == "measure.lock_clocks=1500: NVML: Insufficient Permissions"
    assert not experiment.held

    def waiting(name: str) -> None:
        raise AssertionError(f"{name} is still held")

    with locks.hold(experiment.devices, waiting):
        pass


def test_the_locked_clock_is_recorded(tmp_path: Path) -> None:
    made = Experiment(Point(config("kv_quant"), (), tmp_path / "job"))
    plan(made, HOST)
    assert "clocks_locked_mhz" not in about("s", made, Ceilings(), {}).environment
    made.settings = replace(made.settings, lock_clocks=1500)
    assert about("s", made, Ceilings(), {}).environment["clocks_locked_mhz"] == 1500


@pytest.mark.parametrize("held", [True, False])
def test_a_worker_does_not_wait_for_what_the_driver_holds(
    held: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNNER_LOCKS", str(tmp_path))
    said: list[str] = []

    class Waited(BaseException):
        pass

    def send(kind: str, **fields: Any) -> None:
        said.append(kind)
        if kind == "waiting":
            raise Waited

    made, settings = planned(), {**vars(SETTINGS), "modes": list(SETTINGS.modes)}
    message = {
        "kind": "run",
        "plan": wire.to_dict(made),
        "programs": {unit: str(path) for unit, path in programs(made).items()},
        "settings": settings,
        "folder": str(tmp_path),
        "variants": ["plain"],
        "held": held,
    }
    session = Session("host", send)
    host = DeviceInfo(0, "cpu", "host", "host", "", 1, 0, 0, 1, 0)
    with locks.hold([host], lambda name: None):
        if held:
            assert session.handle(message)
        else:
            with pytest.raises(Waited):
                session.handle(message)
    session.close()
    assert said == (["locked", "started", "outcome", "done"] if held else ["waiting"])
