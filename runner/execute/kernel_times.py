"""``estimate.efficiency=measured``: the kernels of a load, from a folder or the store, or as a point to measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from omegaconf import DictConfig, OmegaConf

from runner.config.check_estimate import MEASURED
from runner.config.errors import ConfigError
from runner.config.load import to_experiment
from runner.config.option_file import typed_option
from runner.config.points import Point
from runner.config.repeat import repeat_command
from runner.config.schema import Config, Kernel, Tracking
from runner.estimate import decoder, times
from runner.estimate.kernels import DECODE, PREFILL, Kernels
from runner.estimate.model import Work
from runner.execute.kernel_sets import FAMILY, Found, Wanted, chosen
from runner.execute.result_files import below
from runner.execute.targets import runs_here
from runner.paths import conf_dir, given, project_dir
from runner.plan.model import Target
from runner.record import search
from runner.record.location import TrackingUnavailable, locate

BECAUSE = f"estimate.efficiency={MEASURED}"
LETTERS = {"layers" if letter == "L" else letter: key for letter, key in decoder.LETTERS.items()}
"""Parameter of the family → key of ``model``. Of all ``layers`` it holds some: its ``L`` is not the model's."""


def asked(config: Config) -> bool:
    """Whether the times of an estimate are to be those of measured kernels."""
    return config.estimate.efficiency == MEASURED


def wanted(point: Point, work: Work, target: Target) -> Wanted:
    """What must have been measured. Raises ``ConfigError`` for a model or a precision that the decoder has not."""
    model = point.config.model
    decoder.check_model(model, BECAUSE)
    try:
        weights, group = decoder.weights_word(work.weights)
    except ConfigError as error:
        raise ConfigError(f"estimate.weights: with {BECAUSE} {error}") from error
    try:
        kv = decoder.kv_word(work.kv)
    except ConfigError as error:
        raise ConfigError(f"estimate.kv: with {BECAUSE} {error}") from error
    letters = {"B": work.batch, **{letter: getattr(model, key) for letter, key in LETTERS.items()}}
    words = {"weights": weights, "kv": kv, **({"group": str(group)} if group else {})}
    return Wanted(
        gpu=target.name,
        backend=target.backend,
        letters={**{letter: str(value) for letter, value in letters.items()}, **words},
        prompt=work.prompt,
        context=times.mean_context(work),
        operators=frozenset(name for name in map(str, _family(point).variants) if name.startswith((DECODE, PREFILL))),
    )


def find(config: Config, needed: Wanted) -> Kernels | str:
    """From ``estimate.kernels``, else from the store; what is missing, in words, where it has not all of them.

    Raises ``ConfigError`` for a folder that has not what is needed, and for a store that cannot be used.
    """
    if config.estimate.kernels:
        where = f"estimate.kernels={config.estimate.kernels}"
        found = below(where, given(config.estimate.kernels))
        kernels = chosen(found, needed, config.estimate.kernels)
        if isinstance(kernels, str):
            raise ConfigError(f"{where}: {kernels}")
        return kernels
    if not config.tracking.enabled:
        return "there is no store (tracking=none)"
    return chosen(stored(config.tracking, needed), needed, locate(config.tracking.uri, project_dir()).shown)


def of_results(needed: Wanted, found: Sequence[Found], folder: Path) -> Kernels | str:
    """From what ``to_measure`` gave, in ``folder``; what is missing, in words, where something failed."""
    failed = [one for one in found if one.result.status.failed]
    if failed:
        first = failed[0].result
        return f"{first.variant or FAMILY} ended as {first.status.value}: {first.message or 'its check failed'}"
    return chosen(found, needed, str(folder))


def stored(tracking: Tracking, needed: Wanted) -> list[Found]:
    """The store's results of the family with the wanted figures, the newest first. Raises ``ConfigError``."""
    params = {"gpu": needed.gpu, "backend": needed.backend, **needed.letters}
    try:
        runs = search.newest(locate(tracking.uri, project_dir()), FAMILY, params)
    except TrackingUnavailable as error:
        raise ConfigError(f"{BECAUSE}: {error}") from error
    return [Found(f"run {run_id}", result) for run_id, result in runs]


def to_measure(point: Point, needed: Wanted, missing: str) -> Point:
    """The point that measures the kernels on this machine.

    Raises ``ConfigError`` with the command to run elsewhere, where the device is not here.
    """
    config = _config(point, needed)
    lines = _overrides(point, needed, config)
    reason = runs_here(needed.gpu)
    if reason:
        command = repeat_command(lines, point.options)
        raise ConfigError(
            f"{BECAUSE}: {missing}, and {reason}. Run on a machine that has it: {command} (then give its folder as "
            "estimate.kernels=<folder>, or use the same store)"
        )
    return replace(
        point,
        config=config,
        overrides=tuple(lines),
        folder=point.folder / FAMILY,
    )


def _overrides(point: Point, needed: Wanted, config: Config) -> list[str]:
    """Lines that give the experiment again, from another folder and without the estimate's own keys."""
    told = ("model", "devices", "measure", "tracking", "timeout_s")
    kept = [
        line
        for line in point.overrides
        if line.lstrip("+").partition("=")[0].partition(".")[0] in told and not line.startswith("model.config_json")
    ]
    params = {**needed.letters, "prompt": str(needed.prompt), "context": str(needed.steps_at)}
    params |= {key: str(config.kernel.params[key]) for key in ("L", "rope") if key in config.kernel.params}
    return [f"kernel={FAMILY}", f"gpu={needed.gpu}", *kept, *(f"kernel.params.{k}={v}" for k, v in params.items())]


def _config(point: Point, needed: Wanted) -> Config:
    """The family at the wanted figures, everything else as the estimate was composed."""
    merged = cast(DictConfig, OmegaConf.structured(point.config))
    merged.kernel = _family(point)
    for letter, value in needed.letters.items():
        merged.kernel.params[letter] = int(value) if value.isdigit() else value
    merged.kernel.params["prompt"], merged.kernel.params["context"] = needed.prompt, needed.steps_at
    if "L" in merged.kernel.params:  # no more layers than there are
        merged.kernel.params["L"] = min(merged.kernel.params["L"], int(needed.letters["layers"]))
    if "rope" in merged.kernel.params:  # angles change no time, and a model without its file may lack what scales them
        merged.kernel.params["rope"] = ""
    return to_experiment(merged)


def _family(point: Point) -> DictConfig:
    """As its YAML says it, the user's own folders first; values of other sections are unresolved. Raises
    ``ConfigError`` where there is none."""
    folders = (*point.config_dirs, conf_dir())
    found = typed_option(folders, "kernel", FAMILY, Kernel)
    if found is None:
        raise ConfigError(f"{BECAUSE}: there is no kernel={FAMILY} in {', '.join(map(str, folders))}")
    return found
