"""``model.weights`` and ``model.config_json``: the figures of the ``model`` section come from a file."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path

from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from runner.config.errors import ConfigError, from_resolution
from runner.config.schema import Model

ReadModel = Callable[[Path], Model]
"""What reads a file; the room that knows the formats stands above this one, so the caller brings it."""

KEYS = ("weights", "config_json")


def fill_in(cfg: DictConfig, read: ReadModel, lines: Iterable[str]) -> None:
    """Writes what the file says into ``cfg.model``, in place, and the file's absolute path under its key.

    ``lines`` are the overrides by which ``cfg`` was composed. Raises ``ConfigError`` for a file that cannot be read,
    for both keys at once, and for a figure of the model given beside the file, which would not count.
    """
    key, path = _named(cfg)
    if not key:
        return
    if cfg.kernel.get("kind") != "estimate":  # an estimate says so on its page
        _refuse_figures(key, lines)
    model = read(path)
    values = {**vars(model), "weights": "", "config_json": "", key: str(path)}
    for field in dataclasses.fields(Model):
        cfg.model[field.name] = values[field.name]


def _named(cfg: DictConfig) -> tuple[str, Path]:
    """The key that names a file, and the file's absolute path; empty where none does."""
    try:
        given = {key: str(cfg.model[key]) for key in KEYS if cfg.model.get(key)}
    except OmegaConfBaseException as error:
        raise from_resolution(error) from error
    if not given:
        return "", Path()
    if len(given) > 1:
        raise ConfigError(
            f"model.config_json={given['config_json']}: leave it out, as model.weights={given['weights']} gives every "
            "figure of the model"
        )
    ((key, value),) = given.items()
    try:
        return key, Path(value).expanduser().absolute()
    except RuntimeError as error:  # the home of a user that does not exist
        raise ConfigError(f"model.{key}={value}: {error}") from error


def _refuse_figures(key: str, lines: Iterable[str]) -> None:
    for line in lines:
        name = line.lstrip("+~").partition("=")[0]
        if name.startswith("model.") and name.removeprefix("model.") not in KEYS:
            raise ConfigError(
                f"{line}: leave it out, as model.{key} gives every figure of the model; the parameters of a kernel can "
                "still be set, e.g. kernel.params.L=2"
            )


def refuse_caps(cfg: DictConfig) -> None:
    """What to say where ``scale`` would cap the model. Weights of a file fit no other sizes than its own; an estimate
    reads no weights. Raises ``ConfigError``."""
    if cfg.model.get("weights") and cfg.kernel.get("kind") != "estimate":
        raise ConfigError(
            f"scale={cfg.scale.name}: caps the sizes of the model, which the weights in model.weights="
            f"{cfg.model.weights} would not fit any more; choose scale=full"
        )
