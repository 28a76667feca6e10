"""All GPUs of a machine: experiments side by side, each on devices that no other one has meanwhile."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace

import psutil

from runner.backend.base import DeviceInfo
from runner.backend.nvml import detect
from runner.config.schema import Config
from runner.execute.conversation import ask_devices
from runner.execute.lanes import Done, Lane, Work
from runner.execute.planning import Experiment
from runner.execute.targets import program_target
from runner.plan.errors import PlanError
from runner.worker.client import WorkerKey, WorkerPool

OPTION = "hydra.launcher.devices"


class SideBySide:
    """A worker per device, fed by a thread each. What an experiment says in ``devices`` counts, not which they are.

    Experiments start in the order of the sweep, as soon as as many devices are free as they need. Nothing is filed
    before all have ended: something is being timed until then.
    """

    files_between = False

    def __init__(self, devices: Sequence[int]) -> None:
        self.devices = tuple(devices)
        self._stop = threading.Event()
        self._lanes = {device: Lane(self._stop.is_set) for device in self.devices}
        self._infos: dict[WorkerKey, dict[int, DeviceInfo]] = {}

    @property
    def pool(self) -> WorkerPool:
        return self._lanes[self.devices[0]].pool

    def settle(self, config: Config) -> Config:
        if config.kernel.kind == "estimate":
            return config
        if len(config.devices) > len(self.devices):
            there = ", ".join(map(str, self.devices))
            has = f"hydra/launcher=gpus has {len(self.devices)}: {there}"
            raise PlanError("devices", list(config.devices), f"{has}; {OPTION}=[…] says which ones")
        return replace(config, devices=list(self.devices[: len(config.devices)]))

    def prepare(self, experiments: Sequence[Experiment]) -> None:
        for experiment in experiments:
            if experiment.plan is None or not experiment.devices:
                continue
            first, *others = self._described(experiment).values()
            for other in others:
                if (other.name, other.arch, other.memory_bytes) != (first.name, first.arch, first.memory_bytes):
                    raise PlanError(
                        OPTION,
                        list(self.devices),
                        f"GPUs of one sweep must be alike, and {first.ordinal} is {first.name}, {other.ordinal} is "
                        f"{other.name}; name those that are",
                    )

    def run(self, experiments: Sequence[Experiment], work: Work, done: Done) -> None:
        free, waiting = list(self.devices), list(experiments)
        running: dict[Future[None], tuple[Experiment, tuple[int, ...]]] = {}
        failure: BaseException | None = None
        with ThreadPoolExecutor(len(self.devices), "lane") as threads:
            while running or (waiting and failure is None):
                try:
                    while waiting and failure is None and len(free) >= _needed(waiting[0]):
                        experiment = waiting.pop(0)
                        taken, free = tuple(free[: _needed(experiment)]), free[_needed(experiment) :]
                        future = threads.submit(self._run, experiment, taken, work)
                        running[future] = experiment, taken
                    ended, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in ended:
                        experiment, taken = running.pop(future)
                        free = sorted([*free, *taken], key=self.devices.index)
                        error = future.exception()
                        done(experiment, error is None)
                        if error is not None and failure is None:
                            raise error
                except BaseException as error:  # Ctrl-C here, or whatever one of them raised
                    failure = failure or error
                    self.discard()
            # While the threads live: a worker ends with the thread that started it.
            self.close()
        if failure is not None:
            raise failure

    def _run(self, experiment: Experiment, taken: tuple[int, ...], work: Work) -> None:
        lane = self._lanes[taken[0]]
        for device in taken[1:]:
            self._lanes[device].pool.close()  # its worker would keep memory of a device that another one uses now
        if experiment.plan is not None and experiment.devices:
            self._put_on(experiment, taken)
        try:
            work(experiment, lane)
        finally:
            if len(taken) > 1:
                lane.pool.close()  # for the same reason: the others are free for another experiment now

    def _put_on(self, experiment: Experiment, taken: tuple[int, ...]) -> None:
        plan = experiment.plan
        assert plan is not None
        known = self._described(experiment)
        experiment.devices = tuple(known[device] for device in taken)
        companion = replace(plan.companion, devices=taken) if plan.companion else None
        command = plan.command
        if command is not None and plan.target.backend == "cuda":
            # A program sees the GPUs that are its own.
            seen = ",".join(info.uuid for info in experiment.devices)
            command = replace(command, environment={"CUDA_VISIBLE_DEVICES": seen, **command.environment})
        experiment.plan = replace(plan, devices=taken, companion=companion, command=command)
        experiment.point = replace(experiment.point, config=replace(experiment.config, devices=list(taken)))

    def _described(self, experiment: Experiment) -> dict[int, DeviceInfo]:
        """Every device by its number, as the experiment's backend under its environment describes it."""
        config, plan = experiment.config, experiment.plan
        assert plan is not None
        key = WorkerKey(plan.target.backend, self.devices, tuple(sorted(config.environment.items())))
        if key not in self._infos:
            if plan.command is not None:
                infos = program_target(replace(config, devices=list(self.devices)))[1]
                infos = infos if len(infos) == len(self.devices) else tuple(infos[0] for _ in self.devices)
            else:
                pool = WorkerPool()
                try:
                    infos = tuple(ask_devices(pool, key, OPTION))
                finally:
                    pool.close()
            self._infos[key] = dict(zip(self.devices, infos, strict=True))
        return self._infos[key]

    def discard(self) -> None:
        """Lanes hear of it where their experiment goes on; what they wait for is ended here."""
        self._stop.set()
        for child in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()

    def close(self) -> None:
        for lane in self._lanes.values():
            lane.pool.close()


def _needed(experiment: Experiment) -> int:
    return max(1, len(experiment.devices))


def choose(given: Sequence[int] | None, on_host: bool) -> tuple[int, ...]:
    """The devices of ``hydra/launcher=gpus``: those given, else every GPU that this process may use, else the CPU as
    one. ``on_host``: all experiments run on the CPU, whose virtual devices are counted where they are opened.
    Raises ``PlanError``."""
    there = [] if on_host else [state.index for state in detect()]
    if given is None:
        return tuple(there) or (0,)
    listed = list(given)
    if not listed or len(set(listed)) < len(listed) or min(listed) < 0:
        raise PlanError(OPTION, listed, "must be different numbers from 0, or null for every GPU")
    missing = [device for device in listed if there and device not in there]
    if missing:
        raise PlanError(OPTION, listed, f"there is no GPU {missing[0]} here; there are {', '.join(map(str, there))}")
    return tuple(listed)
