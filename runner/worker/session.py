"""A worker's conversation: opens devices once, then runs one plan after another on them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from runner.backend.base import Backend, BackendError, Device, DeviceFault, OutOfMemory, Unsupported
from runner.backend.open import open_backend
from runner.measure.flush import Flusher
from runner.measure.settings import MeasureSettings
from runner.plan import wire
from runner.result.model import Status
from runner.worker import locks
from runner.worker.experiment import Experiment
from runner.worker.protocol import ProfileRequest, outcome_to_dict

log = logging.getLogger(__name__)


class Send(Protocol):
    def __call__(self, kind: str, **fields: Any) -> None: ...


class Session:
    """Holds the backend and its open devices; ``handle`` answers one message."""

    def __init__(self, backend: str, send: Send) -> None:
        self._backend: Backend = open_backend(backend)
        self._devices: dict[int, Device] = {}
        self._flushers: dict[int, Flusher] = {}
        self._send = send

    def handle(self, message: dict[str, Any]) -> bool:
        """Returns False when this process must be replaced: a device fault leaves nothing to trust."""
        try:
            if message["kind"] == "hello":
                devices = self._open(message["devices"])
                self._send("devices", devices=[asdict(device.info) for device in devices])
                return True
            return self._run(message)
        except OutOfMemory as error:
            return self._failed(Status.OUT_OF_MEMORY, error)
        except Unsupported as error:
            return self._failed(Status.SKIPPED, error)
        except DeviceFault as error:
            self._failed(Status.RUNTIME_ERROR, error)
            return False
        except BackendError as error:
            return self._failed(Status.LAUNCH_ERROR, error)
        except Exception as error:  # a workload's or a reference's own bug must not end the sweep
            log.exception("experiment failed")
            self._failed(Status.RUNTIME_ERROR, f"{type(error).__name__}: {error}")
            return False

    def _open(self, ordinals: Sequence[int]) -> list[Device]:
        for ordinal in ordinals:
            if ordinal not in self._devices:
                self._devices[ordinal] = self._backend.open(ordinal)
        return [self._devices[ordinal] for ordinal in ordinals]

    def _run(self, message: dict[str, Any]) -> bool:
        plan = wire.from_dict(message["plan"])
        devices = self._open(plan.devices)
        programs = {unit: Path(path) for unit, path in message["programs"].items()}
        healthy = True
        free = () if message.get("held") else [device.info for device in devices]
        with locks.hold(free, lambda name: self._send("waiting", lock=name)):
            self._send("locked")
            experiment = Experiment(self._backend, devices, plan, programs, self._flushers)
            try:
                experiment.prepare()
                if message["kind"] == "profile":
                    request = ProfileRequest(**message["request"])
                    for name in message["variants"]:
                        self._send("started", variant=name)
                        checks = experiment.profile(name, request)
                        self._send("profiled", variant=name, checks=[asdict(check) for check in checks])
                else:
                    settings = MeasureSettings(**{**message["settings"], "modes": tuple(message["settings"]["modes"])})
                    for name in message["variants"]:
                        self._send("started", variant=name)
                        outcome, healthy = experiment.run(name, settings, Path(message["folder"]) / name)
                        self._send("outcome", outcome=outcome_to_dict(outcome))
                        if not healthy:
                            return False
            finally:
                experiment.close(healthy)
        self._send("done")
        return True

    def _failed(self, status: Status, error: object) -> bool:
        self._send("failed", status=status.value, message=str(error))
        return True

    def close(self) -> None:
        for flusher in self._flushers.values():
            flusher.close()
        for device in self._devices.values():
            device.close()
        self._devices.clear()
