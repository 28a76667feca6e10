"""Every point of a command planned before anything is compiled or allocated."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runner.backend.base import DeviceInfo
from runner.build.api import requests
from runner.build.model import BuildRequest, CompileError
from runner.config.errors import ConfigError
from runner.config.points import Point
from runner.config.schema import Config
from runner.diagnose.rules import Rule, rules
from runner.estimate import architecture
from runner.estimate.kernels import Kernels
from runner.estimate.model import Estimate
from runner.execute import given_text, kernel_times, traces
from runner.execute.companion import make_companion
from runner.execute.estimating import make_estimate, make_estimate_plan, work_of
from runner.execute.kernel_sets import Wanted
from runner.execute.settings import measure_settings
from runner.measure.settings import MeasureSettings
from runner.paths import cuda_src_dir, given
from runner.plan.command import make_command_plan
from runner.plan.errors import FamilyError, PlanError, TooLarge
from runner.plan.model import Plan, Target
from runner.plan.planner import make_plan
from runner.report.comparison import Earlier, load
from runner.result.document import DocumentError
from runner.result.model import Result, Status
from runner.timeline.categories import user_rules
from runner.weights import stacked as weights
from runner.weights.names import BUFFERS

_LONGEST = 80
"""Characters of an override in a title."""


@dataclass
class Experiment:
    """One point, and either a plan or the reason why there is none."""

    point: Point
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    plan: Plan | None = None
    settings: MeasureSettings = field(default_factory=MeasureSettings)
    requests: dict[str, BuildRequest] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    """Variants that cannot run at this point, with the reason."""
    refused: tuple[Status, str] | None = None
    devices: tuple[DeviceInfo, ...] = ()
    rules: tuple[Rule, ...] = ()
    """Of the diagnosis, the user's own among them."""
    categories: tuple[Path, ...] = ()
    """The user's files of rules for the categories of kernels."""
    earlier: Earlier | None = None
    """What ``compare_to`` names."""
    estimate: Estimate | None = None
    """``kernel=estimate``: what its only variant says. Arithmetic alone, so that planning it is making it."""
    kernels: Kernels | None = None
    """Of an estimate by measured kernels: their times."""
    wanted: Wanted | None = None
    """Which kernels those are."""
    before: list[Result] = field(default_factory=list)
    """Results of an earlier command for variants that are left out of the plan (``resume=true``)."""
    kept: list[Result] = field(default_factory=list)
    """Results of an earlier attempt at the same job: variants that are not measured again."""
    held: bool = False
    """The driver itself holds the devices' locks meanwhile; its worker must not wait for them."""
    job: dict[str, str] = field(default_factory=dict)
    """Of a job on a cluster: its launcher, id, node and log."""
    needs: Point | None = None
    """What measures them, where nobody has yet: to be run before this is planned once more."""

    @property
    def config(self) -> Config:
        return self.point.config

    @property
    def title(self) -> str:
        """``kv_quant shape.context=4096``: the family and what the user varied."""
        varied = [_short(line) for line in self.point.shown if not line.startswith("kernel=")]
        return " ".join([self.config.kernel.name, *varied])


def _short(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def roots(config_dirs: Sequence[Path]) -> tuple[Path, ...]:
    """Where a family's source and reference are looked for: the user's own folders first."""
    own = [folder / name for folder in config_dirs for name in ("", "cuda_src", "references")]
    beside = [folder.parent / name for folder in config_dirs for name in ("cuda_src", "references", "")]
    return (*own, *beside, cuda_src_dir())


def _earlier(path: str) -> Earlier | None:
    try:
        return load(given(path)) if path else None
    except DocumentError as error:
        raise PlanError("compare_to", path, str(error)) from error


def _categories(folders: Sequence[Path]) -> tuple[Path, ...]:
    try:
        return user_rules(folders)
    except ValueError as error:
        raise FamilyError(str(error)) from error


def _check_weights(path: str, made: Plan) -> None:
    """Where a parameter hands the file of weights to the family: refuses one that lacks what its buffers need."""
    if path and path in made.params.values():
        weights.verify(path)
        for buffer in made.buffers:
            if buffer.fill.kind == "reference" and buffer.name in BUFFERS:
                weights.check_dims(path, buffer.name, buffer.dims)


def _find_kernels(experiment: Experiment, target: Target) -> None:
    """The measured kernels of an estimate that asks for them, or what has to be run for them."""
    point = experiment.point
    if not kernel_times.asked(point.config) or experiment.kernels is not None:
        return
    architecture.of(point.config.model)  # what it refuses is said before anything is measured
    experiment.wanted = kernel_times.wanted(point, work_of(point.config), target)
    found = kernel_times.find(point.config, experiment.wanted)
    if isinstance(found, str):
        experiment.needs = kernel_times.to_measure(point, experiment.wanted, found)
    else:
        experiment.kernels = found


def plan(experiment: Experiment, target: Target) -> None:
    """Fills in plan, settings and compile requests, or the reason for refusing; ``needs`` alone where kernels of an
    estimate have yet to be measured."""
    config = experiment.config
    try:
        experiment.rules = rules(experiment.point.config_dirs)
        experiment.categories = _categories(experiment.point.config_dirs)
        experiment.earlier = _earlier(config.compare_to)
        experiment.settings = measure_settings(config.measure, target.backend, config.kernel.samples)
        if experiment.settings.lock_clocks and target.backend == "host":
            raise PlanError(
                "measure.lock_clocks",
                experiment.settings.lock_clocks,
                "must be 0 here, for the clock of a CPU is not locked",
            )
        if config.kernel.kind == "command":
            experiment.plan = make_command_plan(config, target, experiment.point.shown)
            return
        if config.kernel.kind == "estimate":
            _find_kernels(experiment, target)
            if experiment.needs is not None:
                return
            experiment.estimate = make_estimate(config, experiment.point.shown, experiment.kernels)
            experiment.plan = make_estimate_plan(config, target, experiment.estimate)
            return
        config = traces.read(given_text.with_text(config, experiment.point.shown))
        dirs = experiment.point.config_dirs
        companion = make_companion(config, dirs, target, roots(dirs))
        experiment.plan, experiment.left_out = make_plan(config, target, roots(dirs), companion)
        traces.check(experiment.plan, experiment.settings, config.timeout_s)
        _check_weights(config.model.weights, experiment.plan)
        if companion is not None:
            _check_weights(str(companion.params.get("file", "")), companion)
        experiment.requests = requests(experiment.plan)
    except TooLarge as error:
        experiment.refused = (Status.OUT_OF_MEMORY, str(error))
    except ConfigError as error:
        experiment.refused = (Status.INVALID_CONFIG, str(error))
    except CompileError as error:
        experiment.refused = (Status.COMPILE_ERROR, str(error))
    if experiment.refused:
        experiment.plan = None
