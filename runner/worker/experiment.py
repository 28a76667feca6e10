"""One plan on open devices: allocate, fill, prepare; per variant check, measure, check again; free."""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from runner.backend import nvml
from runner.backend.base import (
    Backend,
    BackendError,
    Buffer,
    Device,
    DeviceFault,
    LaunchError,
    Module,
    OutOfMemory,
    Stream,
    Unsupported,
    Untrusted,
)
from runner.backend.company import Company
from runner.check.case import Case
from runner.check.compare import POISON
from runner.check.fill import fill_launches
from runner.check.verify import Verifier
from runner.measure.energy import StepEnergy
from runner.measure.flush import FUNCTION, Flusher
from runner.measure.loop import measure
from runner.measure.settings import MeasureSettings
from runner.measure.sm_clock import FUNCTION as STAMP
from runner.measure.sm_clock import SmClock
from runner.plan import dtypes
from runner.plan.memory import nbytes
from runner.plan.model import COMPANION, Plan
from runner.plan.model import Buffer as PlannedBuffer
from runner.profile import nvtx
from runner.profile.names import range_name
from runner.result import clock
from runner.result.document import DocumentError
from runner.result.model import CheckResult, Status, TraceEvent
from runner.worker.flushed import flushed_steps
from runner.worker.protocol import STEPS_SUFFIX, Outcome, ProfileRequest
from runner.worker.recording import recorded, traced
from runner.workload.base import Context, Ranges, Recording, Workload
from runner.workload.declared import bind
from runner.workload.rotation import Rotation, rotation

Named = TypeVar("Named")

MAX_EVENTS = 1000
"""Events kept of one step."""


class Experiment:
    """Owns everything one plan has on the devices, from ``prepare`` to ``close``."""

    def __init__(
        self,
        backend: Backend,
        devices: Sequence[Device],
        plan: Plan,
        programs: Mapping[str, Path],
        flushers: dict[int, Flusher],
    ) -> None:
        """``flushers``: by device ordinal, kept by the caller from one experiment to the next."""
        self._backend = backend
        self._devices = devices
        self._plan = plan
        self._programs = programs
        self._buffers: dict[str, Buffer] = {}
        self._outputs: Mapping[str, Buffer] = {}
        """Of the step that was checked last."""
        self._streams: list[Stream] = []
        self._modules: list[dict[str, Module]] = []
        self._flushers = flushers
        self._clocks: list[SmClock] = []
        self._rotation: Rotation | None = None
        """Of the variant that is measured."""
        self._workload: Workload | None = None
        self._own_context: Context | None = None
        self._verifier = Verifier(plan)
        self._ranges = Ranges(nvtx.push, nvtx.pop)

    def prepare(self) -> None:
        """Allocates and fills the buffers, loads the kernels and runs the workload's untimed part."""
        plan = self._plan
        with nvtx.range(f"{plan.phase}/{plan.kernel}/prepare"):
            beside = plan.companion
            for buffer in plan.buffers:
                self._buffers[buffer.name] = self._allocated(buffer)
            for buffer in beside.buffers if beside else ():
                self._buffers[COMPANION + buffer.name] = self._allocated(buffer)
            self._streams = [device.stream() for device in self._devices]
            if len(self._streams) > 1:
                _ready_to_hold(self._streams)
            self._connect()
            self._modules = [
                {unit: device.load(path) for unit, path in self._programs.items()} for device in self._devices
            ]
            companion = None
            if beside is not None:
                modules = [_named_after(COMPANION, modules) for modules in self._modules]
                companion = self._context(beside, _named_after(COMPANION, self._buffers), modules)
                self._fill(companion, Case(beside))
            context = replace(self._context(plan, self._buffers, self._modules), companion=companion)
            self._own_context = context
            self._fill(context, self._verifier.case)
            self._synchronize()
            self._workload = _workload_class(plan.workload.target)(context, **plan.workload.options)
            self._workload.prepare()
            self._synchronize()

    def _allocated(self, buffer: PlannedBuffer) -> Buffer:
        return self._devices[buffer.device].allocate(nbytes(buffer))

    def _context(self, plan: Plan, buffers: Mapping[str, Buffer], modules: Sequence[Mapping[str, Module]]) -> Context:
        return Context(plan, self._devices, self._streams, buffers, modules, self._ranges)

    def _fill(self, context: Context, case: Case) -> None:
        for buffer in context.plan.buffers:
            if buffer.fill.kind == "zeros":
                self._streams[buffer.device].fill(context.buffers[buffer.name], 0)
            if buffer.fill.kind == "reference":
                self._streams[buffer.device].write(context.buffers[buffer.name], case.stored(buffer.name))
            for launch in bind(context, fill_launches(context.plan, buffer)):
                launch.enqueue()

    def _connect(self) -> None:
        """Lets every device of the experiment address every other one's memory, where the machine allows it."""
        for device in self._devices:
            for peer in self._devices:
                if peer is not device and device.can_access_peer(peer):
                    device.enable_peer_access(peer)

    def run(self, variant: str, settings: MeasureSettings, folder: Path | None = None) -> tuple[Outcome, bool]:
        """Checks, measures and checks again. The second value is False when the process must be replaced.

        ``folder``: where a workload's own documents go.
        """
        outcome = Outcome(variant=variant, status=Status.PASSED, started=clock.now())
        begin = time.monotonic()
        healthy = True
        try:
            self._run(variant, settings, outcome)
            if folder is not None and outcome.status is Status.PASSED:
                self._record(variant, folder, outcome)
        except OutOfMemory as error:
            outcome.status, outcome.message = Status.OUT_OF_MEMORY, str(error)
        except Unsupported as error:
            outcome.status, outcome.message = Status.SKIPPED, str(error)
        except Untrusted as error:
            outcome.status, outcome.message = Status.INCORRECT, str(error)
        except LaunchError as error:
            outcome.status, outcome.message = Status.LAUNCH_ERROR, str(error)
        except ValueError as error:  # a reference or a fill that is wrong; the device is well
            outcome.status, outcome.message = Status.RUNTIME_ERROR, str(error)
        except (DeviceFault, BackendError) as error:
            outcome.status, outcome.message, healthy = Status.RUNTIME_ERROR, str(error), False
        outcome.duration_s = time.monotonic() - begin
        return outcome, healthy

    def _run(self, variant: str, settings: MeasureSettings, outcome: Outcome) -> None:
        workload = self._loaded()
        name = range_name(self._plan.phase, self._plan.kernel, variant)
        with nvtx.range(f"{name}/check"):
            first = self._checked_step(variant, outcome.events)
        outcome.checks = first
        outcome.units_per_step = workload.units_per_step
        if _wrong(outcome, first):
            return
        workload.reset(variant)
        on_gpu = self._devices[0].info.backend == "cuda"
        energy = StepEnergy(nvml.EnergyMeter(*(device.info.uuid for device in self._devices))) if on_gpu else None
        company = Company([device.info.uuid for device in self._devices] if on_gpu else [])
        flush = [] if workload.host_timed else self._flush()
        self._rotation = self._rotated(variant, outcome) if "graph" in settings.modes else None
        company.look()
        with nvtx.range(name):
            measured = measure(
                self._streams,
                lambda: workload.step(variant),
                settings,
                host_timed=workload.host_timed,
                flush=flush,
                clocks=self._sm_clocks() if flush and on_gpu else [],
                graph=self._rotation,
                energy=energy,
            )
        outcome.series = measured
        self._end_rotation()
        company.look()
        outcome.warnings += company.words()
        tool = nvtx.attached()
        if tool:
            outcome.warnings.append(f"{tool} was attached: these times are no measurement")
        if energy is not None:
            outcome.state = nvml.snapshots([device.info.uuid for device in self._devices])
            if energy.mj_per_step is not None:
                outcome.metrics["energy_mj"] = energy.mj_per_step
        with nvtx.range(f"{name}/check"):
            second = self._checked_step(variant)
        if _wrong(outcome, second):
            outcome.message += " (in the check after timing; the one before it passed)"
            outcome.checks = second
            return
        outcome.metrics.update(self._verifier.drift(variant))
        outcome.metrics.update(self._verifier.metrics(variant, self._read))
        outcome.metrics.update(workload.metrics(variant))

    def _record(self, variant: str, folder: Path, outcome: Outcome) -> None:
        workload = self._loaded()
        if isinstance(workload, Recording):
            try:
                workload.record(variant, folder)
            except DocumentError as error:  # the measurement stands without it
                outcome.warnings.append(str(error))

    def profile(self, variant: str, request: ProfileRequest) -> list[CheckResult]:
        """The hot region alone, for a profiler round this process, or recorded by this process itself: one capture.

        Returns the checks where ``request.checked`` asks for them.
        """
        workload = self._loaded()
        name = range_name(self._plan.phase, self._plan.kernel, variant)
        if request.checked:
            with nvtx.capture(self._backend, name):
                return [check for _ in range(request.steps) for check in self._checked_step(variant)]
        if request.flushed:
            self._record_steps(variant, request)
            return []
        self._ranges.shown = True
        with recorded(self._backend, bool(request.record)) as recorder:
            workload.reset(variant)
            workload.step(variant)
            self._synchronize()
            with nvtx.capture(self._backend, name), recorder.range(name) as events:
                end = time.monotonic() + request.min_time_s
                while True:
                    for _ in range(request.steps):
                        workload.step(variant)
                    self._synchronize()
                    if time.monotonic() >= end:
                        break
        if request.record:
            path = Path(request.record) / f"{variant}.events.json"
            path.write_text(json.dumps([asdict(event) for event in events]))
        return []

    def _record_steps(self, variant: str, request: ProfileRequest) -> None:
        """Single cold steps, each with its events, into ``request.record``."""
        workload = self._loaded()
        flush = self._flush()
        with recorded(self._backend) as recorder:
            workload.reset(variant)
            workload.step(variant)
            self._synchronize()
            steps = flushed_steps(self._streams, flush, lambda: workload.step(variant), recorder, request.steps)
        path = Path(request.record) / f"{variant}{STEPS_SUFFIX}"
        path.write_text(json.dumps([[asdict(event) for event in step] for step in steps]))

    def _checked_step(self, variant: str, events: list[TraceEvent] | None = None) -> list[CheckResult]:
        """One step on poisoned outputs, compared with the reference; ``events`` gets what the step did."""
        workload = self._loaded()
        workload.reset(variant)
        self._outputs = workload.outputs(variant)
        for name, buffer in self._outputs.items():
            self._streams[self._plan.buffer(name).device].fill(buffer, POISON)
        self._synchronize()
        name = range_name(self._plan.phase, self._plan.kernel, variant)
        with traced(self._backend, events is not None) as recorder, recorder.range(name) as seen:
            workload.step(variant)
            self._synchronize()
        if events is not None:
            events += [event for event in seen if event.kind != "api"][:MAX_EVENTS]
        return self._verifier.verify(variant, self._read)

    def _read(self, name: str, start: int, count: int) -> npt.NDArray[Any]:
        """``count`` elements of an output from flat index ``start``, in its own dtype."""
        planned = self._plan.buffer(name)
        dtype = dtypes.numpy_dtype(planned.dtype)
        target: npt.NDArray[Any] = np.empty(count, dtype=dtype)
        stream = self._streams[planned.device]
        stream.read(target, self._outputs[name], start * dtype.itemsize)
        stream.synchronize()
        return target

    def _flush(self) -> list[Flusher]:
        """One for each device."""
        for device, modules, stream in zip(self._devices, self._modules, self._streams, strict=True):
            if device.info.ordinal not in self._flushers:
                function = modules["flush"].function(FUNCTION)
                self._flushers[device.info.ordinal] = Flusher(device, function, stream)
        return [self._flushers[device.info.ordinal] for device in self._devices]

    def _sm_clocks(self) -> list[SmClock]:
        """One for each device."""
        if not self._clocks:
            parts = zip(self._devices, self._modules, self._streams, strict=True)
            self._clocks = [
                SmClock(device, modules["flush"].function(STAMP), stream) for device, modules, stream in parts
            ]
        return self._clocks

    def _rotated(self, variant: str, outcome: Outcome) -> Rotation | None:
        """The variant's steps for a graph; None, and a warning, where they cannot be captured."""
        self._end_rotation()
        assert self._own_context is not None
        try:
            return rotation(self._loaded(), self._own_context, variant)
        except Unsupported as error:
            outcome.warnings.append(f"no time_graph_us: {error}")
            return None

    def _end_rotation(self) -> None:
        """Gives back its copies of the inputs."""
        if self._rotation is not None:
            self._rotation.close()
            self._rotation = None

    def _synchronize(self) -> None:
        for device in self._devices:
            device.synchronize()

    def _loaded(self) -> Workload:
        if self._workload is None:
            raise RuntimeError("prepare() has not run")
        return self._workload

    def close(self, healthy: bool = True) -> None:
        """Frees everything; after a device fault freeing would only raise again, and the process ends anyway."""
        if not healthy:
            return
        if self._workload is not None:
            self._workload.close()
        self._end_rotation()
        for reader in self._clocks:
            reader.close()
        for buffer in self._buffers.values():
            buffer.free()
        for stream in self._streams:
            stream.close()
        self._buffers.clear()
        self._streams.clear()
        self._clocks.clear()


def _ready_to_hold(streams: Sequence[Stream]) -> None:
    """Holds each stream once, alone: what a hold needs is allocated then, and an allocation may wait for every device,
    also for one that is held."""
    for stream in streams:
        stream.hold()
        stream.release()


def _named_after(prefix: str, values: Mapping[str, Named]) -> dict[str, Named]:
    """Those whose names begin with ``prefix``, without it."""
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}


def _wrong(outcome: Outcome, checks: Sequence[CheckResult]) -> bool:
    failed = [check for check in checks if not check.passed]
    if failed:
        outcome.status = Status.INCORRECT
        outcome.message = "; ".join(f"[{check.name}] {check.message}" for check in failed)
    return bool(failed)


def _workload_class(target: str) -> Any:
    module, _, name = target.rpartition(".")
    return getattr(importlib.import_module(module), name)
