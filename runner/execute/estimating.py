"""``kernel=estimate``: a composed config as an estimate, its plan, and what it says as the outcome of a variant."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from runner.config.errors import ConfigError
from runner.config.model_file import KEYS
from runner.config.schema import Config, Gpu
from runner.config.schema import Estimate as Settings
from runner.estimate import architecture, beside, calibration, precision
from runner.estimate.estimate import estimate
from runner.estimate.kernels import Kernels
from runner.estimate.model import Efficiency, Estimate, Machine, Parallel, Precision, Work
from runner.execute.measurements import measurements
from runner.execute.targets import estimate_gpu, known_gpus
from runner.paths import given
from runner.plan.bare import make_bare_plan
from runner.plan.model import Plan, Target
from runner.plan.target import MIB
from runner.report.estimate import Page, page
from runner.result import clock
from runner.result.model import Status
from runner.worker.protocol import Outcome

_TARGETS = ("ttft_ms", "tpot_ms")
_CONSTANTS = ("bandwidth", "compute", "layer_us", "all_reduce_us", "sequence_us")
"""Keys of ``estimate`` that count with ``efficiency=model`` only."""


def make_estimate(config: Config, overrides: Sequence[str] = (), kernels: Kernels | None = None) -> Estimate:
    """With notes on what ``overrides``, the lines by which the point was composed, give in vain. ``kernels``: the
    measured ones, for ``efficiency=measured``.

    Raises ``ConfigError`` for a model, precision, GPU or file that cannot be estimated with.
    """
    settings = config.estimate
    made = estimate(
        architecture.of(config.model),
        work_of(config),
        Parallel(settings.tensor, settings.pipeline, settings.expert),
        machine_of(estimate_gpu(config)),
        efficiency_of(config, kernels),
        int(settings.reserve_gb * 1e9),
        settings.memory_share,
        kernels,
    )
    made = replace(made, notes=(*made.notes, *_unused(config, overrides)))
    found = measurements(config, made)
    return beside.compared(made, found, model_efficiency(settings)) if found else made


def work_of(config: Config) -> Work:
    """What is asked of the model. Raises ``ConfigError`` for a precision that there is not."""
    settings, shape = config.estimate, config.shape
    return Work(
        batch=shape.batch,
        prompt=shape.prompt,
        output=shape.output,
        weights=_precision("weights", settings.weights),
        kv=_precision("kv", settings.kv),
        other=_precision("other", settings.other),
        head=_precision("head", settings.head) if settings.head else None,
        prefix_share=settings.prefix_share,
        speculative=settings.speculative,
        acceptance=settings.acceptance,
        chunk=settings.chunk,
        expert_skew=settings.expert_skew,
    )


def _precision(key: str, name: str) -> Precision:
    try:
        return precision.of(name)
    except ConfigError as error:
        raise ConfigError(f"estimate.{key}: {error}") from error


def page_of(made: Estimate) -> Page:
    """The page of an estimate, with the shipped GPUs as those that could take its own GPU's place."""
    return page(made, [machine_of(gpu) for gpu in known_gpus().values() if gpu.backend == "cuda"])


def machine_of(gpu: Gpu) -> Machine:
    return Machine(
        name=gpu.name,
        bandwidth_gbps=gpu.bandwidth_gbps,
        memory_bytes=gpu.memory_mib * MIB or int(gpu.memory_gb * 1e9),
        tflops=dict(gpu.tflops),
        tdp_w=gpu.tdp_w,
        nvlink_gbps=gpu.nvlink_gbps,
        pcie=gpu.pcie,
        price_per_hour=gpu.price_per_hour,
    )


def efficiency_of(config: Config, kernels: Kernels | None = None) -> Efficiency:
    """``ideal``, ``model`` with the section's constants, ``measured`` by ``kernels``, or the constants of a file of
    ``python -m runner.calibrate``."""
    settings = config.estimate
    if kernels is not None:
        return Efficiency(level="measured", source=kernels.place)
    if settings.efficiency == "ideal":
        return Efficiency()
    if settings.efficiency == "model":
        return model_efficiency(settings)
    return calibration.read(given(settings.efficiency))


def model_efficiency(settings: Settings) -> Efficiency:
    """The section's constants."""
    constants = {key: getattr(settings, key) for key in _CONSTANTS}
    return Efficiency(level="model", source="the constants of the section estimate", **constants)


def make_estimate_plan(config: Config, target: Target, made: Estimate) -> Plan:
    """The plan of an estimate: parameters to file and one variant, named after the weights' precision."""
    settings = config.estimate
    params: dict[str, float | int | str] = {
        "batch": made.work.batch,
        "prompt": made.work.prompt,
        "output": made.work.output,
    }
    unset = (key for key in ("measured", "engine", "kernels", "head") if not getattr(settings, key))
    left_out = (*_TARGETS, *unset, *(() if settings.efficiency == "model" else _CONSTANTS))
    params.update({key: value for key, value in vars(settings).items() if key not in left_out})
    params.update({f"target_{key}": getattr(settings, key) for key in _TARGETS if getattr(settings, key)})
    params.update(made.labels)
    return make_bare_plan(
        config, target, made.work.weights.name, params, model=made.architecture.name, shape=config.shape.name
    )


def outcome(config: Config, made: Estimate) -> Outcome:
    """What the estimate says, as if it had been measured: always ``PASSED``, since a model that does not fit is an
    answer."""
    begin = time.monotonic()
    said = Outcome(made.work.weights.name, Status.PASSED, started=clock.now())
    said.metrics = {**made.metrics, **_targets(config, made)}
    said.warnings = list(dict.fromkeys([*made.architecture.notes, *made.notes]))
    said.duration_s = time.monotonic() - begin
    return said


def _targets(config: Config, made: Estimate) -> dict[str, float]:
    """``meets_targets`` (0 or 1), where a target was set: what does not fit meets none."""
    wanted = {key: getattr(config.estimate, key) for key in _TARGETS if getattr(config.estimate, key)}
    if not wanted:
        return {}
    met = made.memory.fits and all(made.metrics[key] <= limit for key, limit in wanted.items())
    return {"meets_targets": float(met)}


def _unused(config: Config, overrides: Sequence[str]) -> list[str]:
    """What was given and does not count."""
    given = [line.lstrip("+").partition("=")[0] for line in overrides]
    said = []
    if "shape.context" in given:
        said.append("shape.context is not used: the context of a step follows from shape.prompt and shape.output")
    if config.estimate.efficiency != "model" and not config.estimate.measured:
        idle = [key for key in given if key in {f"estimate.{name}" for name in _CONSTANTS}]
        said += [f"{key} is not used: it counts with estimate.efficiency=model only" for key in idle]
    for source in (key for key in KEYS if getattr(config.model, key)):
        idle = [key for key in given if key.startswith("model.") and key.removeprefix("model.") not in KEYS]
        said += [f"{key} is not used: model.{source} gives every figure of the model" for key in idle]
    return said
