"""What this device really reaches, in memory and arithmetic: measured once by the ``ceilings`` family, then cached."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path

from omegaconf import OmegaConf

from runner.backend import nvml
from runner.backend.base import DeviceInfo
from runner.build.api import build
from runner.build.cache import cache_dir
from runner.build.sources import closure
from runner.config.schema import Kernel, Measure, MeasureHost
from runner.execute import planning
from runner.execute.experiment import outcomes_of
from runner.execute.planning import Experiment
from runner.paths import PACKAGE, conf_dir, cuda_src_dir
from runner.plan.model import Variant
from runner.result.document import parsed
from runner.result.metrics import Ceilings, metrics
from runner.result.model import Result, Status
from runner.worker.client import WorkerPool

FAMILY = "ceilings"
MEMORY = ("copy", "read", "write")
"""Variants of the family that are a bandwidth; all others are arithmetic."""
_MEASURE = Measure(
    name=FAMILY,
    modes=["cold"],
    min_samples=10,
    min_time_s=0.02,
    max_time_s=0.5,
    max_rsd=0.01,
    host=MeasureHost(min_samples=5, max_time_s=0.3),
)
"""A ceiling need not be known better than 1 %, and nobody waits long for it."""
_Environment = tuple[tuple[str, str], ...]


class DeviceCeilings:
    """The ceilings of every device a command meets: remembered, else from the cache on disk, else measured."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._known: dict[tuple[str, _Environment], Ceilings] = {}
        """By the device's UUID, and what a CPU's kernels were told by variables."""

    def of(self, experiment: Experiment, before_measuring: Callable[[str], None]) -> Ceilings:
        """Of the experiment's first device; none where they cannot be measured or the experiment does so itself.

        ``before_measuring`` gets the device's name when it takes a measurement.
        """
        if experiment.plan is None or experiment.plan.command or experiment.plan.kernel == FAMILY:
            return Ceilings()
        if not experiment.devices:  # an estimate
            return Ceilings()
        info, environment = experiment.devices[0], _environment(experiment)
        if (info.uuid, environment) not in self._known:
            known = load(info, cache_dir()) if not environment else None
            if known is None:
                before_measuring(info.name)
                known = self._measure(experiment)
            self._known[info.uuid, environment] = known
        return self._known[info.uuid, environment]

    def keep(self, experiment: Experiment, results: Sequence[Result]) -> None:
        """Takes over what ``kernel=ceilings`` measured as this module would: all variants, at the size chosen for the
        device, without a sanitizer, at no locked clock, cold, as many samples as the rules take at least, and without
        variables of its own. Other results are ignored."""
        plan, settings = experiment.plan, experiment.settings
        if plan is None or plan.kernel != FAMILY or plan.sanitize or plan.params["MB"] != 0:
            return
        if settings.lock_clocks or experiment.config.environment:  # slower than the device is for everybody else
            return
        if "cold" not in settings.modes or not settings.hide_latency or 0 < settings.fixed < settings.min_samples:
            return
        if experiment.config.variants is None and not (experiment.before or experiment.kept):
            figures = {made.variant: made.metrics for made in results if made.status is Status.PASSED}
            self._save(experiment, plan.variants, figures)

    def _measure(self, example: Experiment) -> Ceilings:
        """Runs the family on the devices of ``example``. A variant that fails leaves its ceiling unmeasured."""
        experiment = experiment_for(example)
        assert example.plan is not None
        planning.plan(experiment, example.plan.target)
        plan, built = experiment.plan, build(experiment.requests.values())
        if plan is None:  # more memory than the device has
            return Ceilings()
        figures: dict[str, dict[str, float]] = {}
        for outcome in outcomes_of(experiment, built, self._pool, lambda kind, what: None):
            if outcome.status is Status.PASSED:
                variant = plan.variant(outcome.variant)
                figures[outcome.variant] = metrics(variant, outcome.series, (), plan.target, Ceilings())
        return self._save(example, plan.variants, figures)

    def _save(
        self, experiment: Experiment, variants: Sequence[Variant], figures: Mapping[str, Mapping[str, float]]
    ) -> Ceilings:
        """Remembers ceilings, here and on disk; where a bandwidth is missing there are none, and nothing is kept."""
        found = from_figures(variants, figures)
        if found is None:
            return Ceilings()
        info, environment = experiment.devices[0], _environment(experiment)
        if not environment:
            with contextlib.suppress(OSError):  # a cache that is full or read-only: measured again by the next command
                save(info, cache_dir(), found)
        self._known[info.uuid, environment] = found
        return found


def _environment(experiment: Experiment) -> _Environment:
    """Variables that what is reached depends on: with ``OMP_NUM_THREADS=1`` a CPU is another one. A GPU does not read
    them."""
    on_host = experiment.devices[0].backend == "host"
    return tuple(sorted(experiment.config.environment.items())) if on_host else ()


def cache_file(info: DeviceInfo, cache: Path) -> Path:
    """One file per device, driver, and limits of its clocks and power: each may move data and compute differently."""
    limits = nvml.Gpu(info.uuid).limits() if info.backend == "cuda" else {}
    parts = [info.uuid, info.driver or info.backend, *map(str, limits.values())]
    return cache / "ceilings" / f"{re.sub(r'[^A-Za-z0-9._-]+', '_', '-'.join(parts))}.json"


def load(info: DeviceInfo, cache: Path) -> Ceilings | None:
    """What was measured on this device earlier by the same code, or None."""
    try:
        data = parsed(cache_file(info, cache).read_text())
        if data["code"] != code():
            return None
        kept = data["ceilings"]
        rates = {f"{name}_gbps": float(kept[f"{name}_gbps"]) for name in MEMORY}
        return Ceilings(**rates, tflops={str(kind): float(rate) for kind, rate in kept["tflops"].items()})
    except (OSError, AttributeError, KeyError, TypeError, ValueError):
        return None


def save(info: DeviceInfo, cache: Path, ceilings: Ceilings) -> None:
    """Atomic, so that a second command never reads half a file."""
    path = cache_file(info, cache)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    kept = {"ceilings": asdict(ceilings), "code": code(), "device": info.name, "driver": info.driver}
    temporary.write_text(json.dumps(kept, indent=1))
    os.replace(temporary, path)


@lru_cache(maxsize=1)
def code() -> str:
    """Digest of what decides the figures: the kernels, their declaration, the flush before each sample, this file and
    the timing loop."""
    folder = cuda_src_dir()
    sources = {**closure(folder / f"{FAMILY}.cu", (folder,)), **closure(folder / "common" / "flush.cu", (folder,))}
    digest = hashlib.sha256(repr(sorted((path.name, known) for path, known in sources.items())).encode())
    for path in (_declaration(), Path(__file__), *sorted((PACKAGE / "measure").glob("*.py"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _declaration() -> Path:
    return conf_dir() / "kernel" / f"{FAMILY}.yaml"


def experiment_for(example: Experiment) -> Experiment:
    """The ``ceilings`` family on the devices, target and environment of another experiment."""
    kernel = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(Kernel), OmegaConf.load(_declaration())))
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


def from_figures(variants: Sequence[Variant], figures: Mapping[str, Mapping[str, float]]) -> Ceilings | None:
    """Ceilings out of the metrics of those ``variants`` that passed; None unless all bandwidths were measured.

    The ceiling of an arithmetic type is the best of its variants. It is absent where one of them did not pass: that
    might have been the best.
    """
    if any(name not in figures for name in MEMORY):
        return None
    rates: dict[str, list[float]] = {}
    for variant in variants:
        if variant.name not in MEMORY:
            rates.setdefault(variant.compute, []).append(figures.get(variant.name, {}).get("tflops", 0.0))
    return Ceilings(
        copy_gbps=figures["copy"]["gbps"],
        read_gbps=figures["read"]["gbps"],
        write_gbps=figures["write"]["gbps"],
        tflops={kind: max(found) for kind, found in rates.items() if all(found)},
    )
