"""Copy and read bandwidth this device really reaches: measured once by the ``ceilings`` family, then cached."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from omegaconf import OmegaConf

from runner.backend.base import DeviceInfo
from runner.build.api import build
from runner.build.cache import cache_dir
from runner.config.schema import Kernel, Measure
from runner.execute import planning
from runner.execute.experiment import outcomes_of
from runner.execute.planning import Experiment
from runner.paths import conf_dir
from runner.result.metrics import Ceilings, metrics
from runner.result.model import Result, Status
from runner.worker.client import WorkerPool

FAMILY = "ceilings"
_MEASURE = Measure(name=FAMILY, modes=["cold"], min_samples=10, min_time_s=0.05, max_time_s=3.0, max_rsd=0.01)
"""A ceiling need not be known better than 1 %, and nobody waits long for it."""


class DeviceCeilings:
    """The ceilings of every device a command meets: remembered, else from the cache on disk, else measured."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._known: dict[str, Ceilings] = {}
        """By the device's UUID."""

    def of(self, experiment: Experiment, before_measuring: Callable[[str], None]) -> Ceilings:
        """Of the experiment's first device; zeros where they cannot be measured or the experiment does so itself.

        ``before_measuring`` gets the device's name when it takes a measurement.
        """
        if experiment.plan is None or experiment.plan.command or experiment.plan.kernel == FAMILY:
            return Ceilings()
        if not experiment.devices:  # an estimate
            return Ceilings()
        info = experiment.devices[0]
        if info.uuid not in self._known:
            known = load(info, cache_dir())
            if known is None:
                before_measuring(info.name)
                known = self._measure(experiment)
            self._known[info.uuid] = known
        return self._known[info.uuid]

    def keep(self, experiment: Experiment, results: Sequence[Result]) -> None:
        """Takes over what ``kernel=ceilings`` measured as this module would: at the size chosen for the device and
        without a sanitizer. Other results are ignored."""
        plan = experiment.plan
        if plan is not None and plan.kernel == FAMILY and not plan.sanitize and plan.params["MB"] == 0:
            self._save(
                experiment.devices[0], {r.variant: r.metrics["gbps"] for r in results if r.status is Status.PASSED}
            )

    def _measure(self, example: Experiment) -> Ceilings:
        """Runs the family on the devices of ``example``. A variant that fails leaves its ceiling unmeasured."""
        experiment = experiment_for(example)
        assert example.plan is not None
        planning.plan(experiment, example.plan.target)
        plan, built = experiment.plan, build(experiment.requests.values())
        rates: dict[str, float] = {}
        for outcome in outcomes_of(experiment, built, self._pool, lambda kind, what: None):
            if plan is not None and outcome.status is Status.PASSED:
                found = metrics(plan.variant(outcome.variant), outcome.series, (), plan.target, Ceilings())
                rates[outcome.variant] = found["gbps"]
        return self._save(example.devices[0], rates)

    def _save(self, info: DeviceInfo, rates: Mapping[str, float]) -> Ceilings:
        """Remembers complete ceilings, here and on disk; incomplete ones are zeros and not kept."""
        found = from_rates(rates)
        if found is None:
            return Ceilings()
        with contextlib.suppress(OSError):  # a cache that is full or read-only: measured again by the next command
            save(info, cache_dir(), found)
        self._known[info.uuid] = found
        return found


def cache_file(info: DeviceInfo, cache: Path) -> Path:
    """One file per device and driver: another driver may move memory differently."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", f"{info.uuid}-{info.driver or info.backend}")
    return cache / "ceilings" / f"{safe}.json"


def load(info: DeviceInfo, cache: Path) -> Ceilings | None:
    """What was measured on this device earlier, or None."""
    try:
        data = json.loads(cache_file(info, cache).read_text())
        return Ceilings(copy_gbps=float(data["copy_gbps"]), read_gbps=float(data["read_gbps"]))
    except (OSError, KeyError, TypeError, ValueError):
        return None


def save(info: DeviceInfo, cache: Path, ceilings: Ceilings) -> None:
    """Atomic, so that a second command never reads half a file."""
    path = cache_file(info, cache)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(json.dumps({**asdict(ceilings), "device": info.name, "driver": info.driver}, indent=1))
    os.replace(temporary, path)


def experiment_for(example: Experiment) -> Experiment:
    """The ``ceilings`` family on the devices, target and environment of another experiment."""
    path = conf_dir() / "kernel" / f"{FAMILY}.yaml"
    kernel = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(Kernel), OmegaConf.load(path)))
    assert isinstance(kernel, Kernel)
    config = replace(
        example.config,
        kernel=kernel,
        variants=None,
        measure=_MEASURE,
        sanitize=False,
        seed=0,
        devices=[example.config.devices[0]],
    )
    return Experiment(replace(example.point, config=config), devices=example.devices[:1])


def from_rates(rates: Mapping[str, float]) -> Ceilings | None:
    """Ceilings out of the GB/s of the family's two variants; None unless both were measured."""
    if "copy" not in rates or "read" not in rates:
        return None
    return Ceilings(copy_gbps=rates["copy"], read_gbps=rates["read"])
