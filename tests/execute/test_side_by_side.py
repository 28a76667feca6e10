"""Experiments on several devices at once, without a device."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from runner.backend.base import DeviceInfo
from runner.backend.host.machine import device_info
from runner.config.points import Point
from runner.execute import side_by_side
from runner.execute.lanes import Lane
from runner.execute.planning import Experiment
from runner.execute.side_by_side import SideBySide, choose
from runner.plan.errors import PlanError
from tests.kernels.plans import HOST, config, plan


def experiment(number: int, devices: int = 1) -> Experiment:
    settled = config("kv_quant")
    settled.devices = list(range(devices))
    made = Experiment(Point(settled, (), Path("/nowhere") / str(number), number))
    made.plan = replace(plan("kv_quant", target=HOST), devices=tuple(range(devices)))
    made.devices = tuple(device_info(device) for device in range(devices))
    return made


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> SideBySide:
    """Two devices, described without a worker."""
    monkeypatch.setattr(
        side_by_side, "ask_devices", lambda pool, key, option: [device_info(number) for number in key.devices]
    )
    return SideBySide((0, 1))


def test_as_many_run_at_once_as_there_are_devices_and_each_has_its_own(two: SideBySide) -> None:
    together = threading.Barrier(2, timeout=30)
    seen: list[tuple[int, ...]] = []

    def work(one: Experiment, lane: Lane) -> None:
        assert one.plan is not None
        assert tuple(one.config.devices) == one.plan.devices == tuple(info.ordinal for info in one.devices)
        seen.append(one.plan.devices)
        together.wait()

    ended: list[int] = []
    two.run([experiment(n) for n in range(4)], work, lambda one, whole: ended.append(one.point.number))
    assert sorted(seen) == [(0,), (0,), (1,), (1,)]
    assert sorted(ended) == [0, 1, 2, 3]


def test_an_experiment_of_two_devices_waits_until_both_are_free(two: SideBySide) -> None:
    running: set[int] = set()
    lock = threading.Lock()

    def work(one: Experiment, lane: Lane) -> None:
        assert one.plan is not None
        with lock:
            assert not running & set(one.plan.devices)
            running.update(one.plan.devices)
        threading.Event().wait(0.05)
        with lock:
            running.difference_update(one.plan.devices)

    order: list[int] = []
    made = [experiment(0), experiment(1, devices=2), experiment(2)]
    two.run(made, work, lambda one, whole: order.append(one.point.number))
    assert order == [0, 1, 2]


@dataclass
class Pool:
    """A pool of workers that notes when it is closed, and whether the threads of the lanes lived then."""

    closed: list[tuple[int, bool]]
    device: int

    def close(self) -> None:
        lives = any(thread.name.startswith("lane") for thread in threading.enumerate())
        self.closed.append((self.device, lives))


@pytest.fixture
def closed(two: SideBySide, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    noted: list[tuple[int, bool]] = []
    for device, lane in two._lanes.items():
        monkeypatch.setattr(lane, "pool", Pool(noted, device))
    return noted


@pytest.mark.parametrize("fails", [False, True])
def test_a_worker_on_several_devices_ends_before_they_are_free(
    two: SideBySide, closed: list[tuple[int, bool]], fails: bool
) -> None:
    def work(one: Experiment, lane: Lane) -> None:
        closed.append((-1, True))
        if fails:
            raise ValueError("broken")

    free: list[int] = []
    with pytest.raises(ValueError, match="broken") if fails else contextlib.nullcontext():
        two.run([experiment(0, devices=2)], work, lambda one, whole: free.append(len(closed)))
    # The second device's own worker, the work, the worker on both.
    assert [device for device, _ in closed[:3]] == [1, -1, 0] and free == [3]


def test_workers_are_asked_to_end_while_the_threads_that_started_them_live(
    two: SideBySide, closed: list[tuple[int, bool]]
) -> None:
    two.run([experiment(0), experiment(1)], lambda one, lane: None, lambda one, whole: None)
    assert sorted(closed) == [(0, True), (1, True)]


def test_what_one_raises_ends_the_others_and_comes_out(two: SideBySide) -> None:
    begun = threading.Event()

    def work(one: Experiment, lane: Lane) -> None:
        if one.point.number == 0:
            begun.wait(30)
            raise KeyboardInterrupt
        begun.set()
        while not lane.stopped():
            threading.Event().wait(0.01)
        raise KeyboardInterrupt

    ended: list[tuple[int, bool]] = []
    with pytest.raises(KeyboardInterrupt):
        two.run([experiment(n) for n in range(4)], work, lambda one, whole: ended.append((one.point.number, whole)))
    assert sorted(ended) == [(0, False), (1, False)]


def test_more_devices_than_there_are_is_refused(two: SideBySide) -> None:
    asked = config("kv_quant")
    asked.devices = [0, 1, 2]
    with pytest.raises(PlanError, match=r"devices=\[0, 1, 2\]: hydra/launcher=gpus has 2: 0, 1"):
        two.settle(asked)


def test_gpus_that_differ_are_refused(two: SideBySide, monkeypatch: pytest.MonkeyPatch) -> None:
    def described(pool: object, key: object, option: str) -> list[DeviceInfo]:
        return [device_info(0), replace(device_info(1), name="another")]

    monkeypatch.setattr(side_by_side, "ask_devices", described)
    with pytest.raises(PlanError, match=r"GPUs of one sweep must be alike, and 0 is .*, 1 is another"):
        two.prepare([experiment(0)])


def test_devices_are_those_given_or_all(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose(None, on_host=True) == (0,)
    assert choose([3, 1], on_host=True) == (3, 1)
    for wrong in ([], [0, 0], [-1]):
        with pytest.raises(PlanError, match=r"hydra\.launcher\.devices=.*: must be different numbers"):
            choose(wrong, on_host=True)
    monkeypatch.setattr(side_by_side, "detect", lambda: [type("State", (), {"index": n}) for n in range(2)])
    assert choose(None, on_host=False) == (0, 1)
    with pytest.raises(PlanError, match=r"hydra\.launcher\.devices=\[0, 2\]: there is no GPU 2 here; there are 0, 1"):
        choose([0, 2], on_host=False)
