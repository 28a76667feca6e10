"""The entry of the host backend: how many virtual devices there are, and opening them."""

from __future__ import annotations

import os

from runner.backend.base import BackendError
from runner.backend.host import machine
from runner.backend.host.device import HostDevice
from runner.backend.host.memory import Budget, PageLocked
from runner.plan.model import BackendName
from runner.result.model import TraceEvent

DEVICES_VARIABLE = "RUNNER_HOST_DEVICES"
DEFAULT_DEVICES = 2
MAX_DEVICES = 64
ORDER_VARIABLE = "RUNNER_HOST_ORDER"
"""Seed of the order of threads and blocks in sanitized programs; 0 leaves the order as it is without a sanitizer."""
BARRIERS_VARIABLE = "RUNNER_HOST_BARRIERS"
"""``1``: a sanitized program faults where not all threads of a block pass the same number of barriers."""


class HostBackend:
    """Virtual devices on this machine's CPU. They share its memory and its cores."""

    name: BackendName = "host"

    def __init__(self, devices: int | None = None, seed: int | None = None) -> None:
        """``devices``: how many; ``$RUNNER_HOST_DEVICES`` or 2 by default. ``seed``: ``$RUNNER_HOST_ORDER`` or 1."""
        self._count = _from_environment() if devices is None else _checked("devices", devices)
        self._open: dict[int, HostDevice] = {}
        self.seed = _order_from_environment() if seed is None else seed
        self.count_barriers = os.environ.get(BARRIERS_VARIABLE) == "1"
        self.budget = Budget(machine.available_memory())
        self.locked = PageLocked()
        self.trace: list[TraceEvent] | None = None
        """Set to a list: every launch, copy and fill is added to it, and every call that causes or awaits them; times
        from ``time.perf_counter``."""

    def device_count(self) -> int:
        return self._count

    def open(self, ordinal: int) -> HostDevice:
        """The device ``ordinal``; the same object until it is closed. Raises ``BackendError``."""
        if not 0 <= ordinal < self._count:
            raise BackendError(
                f"no host device {ordinal}: there are {self._count} (0 to {self._count - 1}); the environment's "
                f"{DEVICES_VARIABLE} says how many, up to {MAX_DEVICES}"
            )
        if ordinal not in self._open:
            self._open[ordinal] = HostDevice(self, machine.device_info(ordinal))
        return self._open[ordinal]

    def forget_device(self, device: HostDevice) -> None:
        self._open.pop(device.info.ordinal, None)

    def start_profiler(self) -> None:
        """Nothing to start: a profiler of the CPU captures by NVTX range."""

    def stop_profiler(self) -> None:
        """See ``start_profiler``."""


def _from_environment() -> int:
    text = os.environ.get(DEVICES_VARIABLE, "")
    if not text:
        return DEFAULT_DEVICES
    if not text.isdigit():
        raise BackendError(f"{DEVICES_VARIABLE}={text!r}: allowed are 1 to {MAX_DEVICES}")
    return _checked(DEVICES_VARIABLE, int(text))


def _order_from_environment() -> int:
    text = os.environ.get(ORDER_VARIABLE, "1")
    if not text.isdigit():
        raise BackendError(f"{ORDER_VARIABLE}={text!r}: allowed are whole numbers from 0 on")
    return int(text)


def _checked(key: str, count: int) -> int:
    if not 1 <= count <= MAX_DEVICES:
        raise BackendError(f"{key}={count}: allowed are 1 to {MAX_DEVICES}")
    return count
