"""A backend that writes down what is asked of it, on a clock that only it moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest


@dataclass
class FakeInfo:
    backend: str = "cuda"
    l2_bytes: int = 50 << 20
    sms: int = 4


@dataclass
class FakeBuffer:
    nbytes: int
    log: list[str]

    def free(self) -> None:
        self.log.append("free")


@dataclass
class FakeEvent:
    name: str
    device: FakeDevice
    at_us: float | None = None

    def elapsed_us(self, since: FakeEvent) -> float:
        assert self.at_us is not None and since.at_us is not None, "an event that was not recorded"
        assert not self.device.queue, "an event was read before the device had finished"
        return self.at_us - since.at_us


@dataclass
class FakeDevice:
    """Runs what is queued when it is waited for; ``now_us`` is its time and the host's."""

    info: FakeInfo = field(default_factory=FakeInfo)
    log: list[str] = field(default_factory=list)
    queue: list[Any] = field(default_factory=list)
    now_us: float = 0.0
    flush_us: float = 20.0
    events: int = 0
    mhz: Callable[[float], float] = lambda now_us: 1000.0
    """Clock of the multiprocessors at a time."""
    cycles: float = 0.0
    stamps: npt.NDArray[np.uint64] = field(default_factory=lambda: np.zeros((2, 2), np.uint64))

    def page_locked(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        return np.zeros(shape, dtype)

    def pass_time(self, us: float) -> None:
        self.cycles += us * self.mhz(self.now_us)
        self.now_us += us

    def allocate(self, nbytes: int) -> FakeBuffer:
        self.log.append(f"allocate {nbytes}")
        return FakeBuffer(nbytes, self.log)

    def event(self) -> FakeEvent:
        self.events += 1
        return FakeEvent("start" if self.events % 2 else "stop", self)


@dataclass
class FakeStream:
    device: FakeDevice
    held: bool = False

    def fill(self, target: FakeBuffer, byte: int) -> None:
        self.device.log.append("zero")

    def launch(self, function: str, grid: Any, block: Any, shared_bytes: int, arguments: Any) -> None:
        self.device.log.append(function)
        if function == "stamp":
            self.device.queue.append(lambda: self._stamp(int(arguments[1])))
        else:
            self.device.queue.append(self.device.flush_us)

    def _stamp(self, place: int) -> None:
        self.device.stamps[place] = (1 + round(self.device.now_us * 1000), round(self.device.cycles))

    def read(self, target: npt.NDArray[Any], source: FakeBuffer, offset: int = 0) -> None:
        assert source.nbytes == target.nbytes
        self.device.log.append("read")

        def copy() -> None:
            target[:] = self.device.stamps

        self.device.queue.append(copy)

    def hold(self) -> None:
        assert not self.held, "held twice"
        self.device.log.append("hold")
        self.held = True

    def release(self) -> None:
        assert self.held, "released without a hold"
        self.device.log.append("release")
        self.held = False

    def record(self, event: FakeEvent) -> None:
        self.device.log.append(f"record {event.name}")
        self.device.queue.append(event)

    def synchronize(self) -> None:
        assert not self.held, "waiting for a held stream never ends"
        self.device.log.append("sync")
        for item in self.device.queue:
            if isinstance(item, FakeEvent):
                item.at_us = self.device.now_us
            elif callable(item):
                item()
            else:
                self.device.pass_time(item)
        self.device.queue.clear()


class Bench:
    """Stream, device, clock and a step whose times are given."""

    def __init__(self, step_us: float | list[float] = 100.0) -> None:
        self.device = FakeDevice()
        self.stream: Any = FakeStream(self.device)
        self._times = step_us if isinstance(step_us, list) else [step_us]
        self.steps = 0

    @property
    def flush(self) -> Any:
        """Stands for the loaded kernel; its name is what the log shows."""
        return "flush"

    @property
    def log(self) -> list[str]:
        return self.device.log

    def clock(self) -> float:
        """Seconds."""
        return self.device.now_us * 1e-6

    def step(self) -> None:
        self.log.append("step")
        self.device.queue.append(self._times[min(self.steps, len(self._times) - 1)])
        self.steps += 1


@pytest.fixture
def bench() -> type[Bench]:
    """The class; tests choose the step's times: ``bench(step_us=100.0)``."""
    return Bench
