"""What all results of one experiment share: who, with which config, on which devices, from which commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from runner.backend import topology
from runner.backend.nvml import snapshots
from runner.build.model import BuildRequest, CompileError, Program
from runner.config.dump import plain_config
from runner.execute import fingerprint
from runner.execute.evidence import compilation
from runner.execute.planning import Experiment
from runner.paths import project_dir
from runner.plan.parameters import long_names
from runner.result.environment import collect
from runner.result.metrics import Ceilings


@dataclass(frozen=True)
class About:
    """The shared part of an experiment's results; ``config`` and ``overrides`` are free of secrets."""

    sweep_id: str
    experiment_id: str
    kernel: str
    phase: str
    model: str
    shape: str
    config: dict[str, Any]
    names: dict[str, str]
    """Letter → long name of the family's parameters."""
    overrides: list[str]
    repeat: str
    environment: dict[str, Any]
    fingerprints: dict[str, str]
    """By variant: :mod:`runner.execute.fingerprint`."""


def about(
    sweep_id: str,
    experiment: Experiment,
    ceilings: Ceilings,
    built: Mapping[BuildRequest, Program | CompileError],
) -> About:
    """Takes a snapshot of the GPUs' clocks, modes and health (``gpu_state_before``; ``gpu_state`` is the one after the
    measurement), so call it right before the experiment runs."""
    config, point = experiment.config, experiment.point
    devices = [asdict(info) for info in experiment.devices]
    environment = collect(project_dir(), device=devices[0] if devices else None)
    environment["devices"] = devices
    environment.update(compilation(experiment, built))
    if experiment.devices and experiment.devices[0].backend == "cuda":
        environment["gpu_state_before"] = snapshots([device.uuid for device in experiment.devices])
        environment["topology"] = topology.text()
    if experiment.settings.lock_clocks:
        environment["clocks_locked_mhz"] = experiment.settings.lock_clocks
    if experiment.job:
        environment["job"] = experiment.job
    environment["ceilings"] = asdict(ceilings)
    if experiment.plan is not None:
        environment["target"] = asdict(experiment.plan.target)
    return About(
        sweep_id=sweep_id,
        experiment_id=experiment.id,
        kernel=config.kernel.name,
        phase=config.kernel.phase,
        model=config.model.name,
        shape=config.shape.name,
        config=plain_config(config),
        names=long_names(config.kernel),
        overrides=list(point.shown),
        repeat=point.repeat,
        environment=environment,
        fingerprints=fingerprint.of(experiment),
    )
