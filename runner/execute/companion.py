"""A family beside another one: the second model that a workload needs, planned like the first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from omegaconf import DictConfig, OmegaConf

from runner.config.errors import ConfigError
from runner.config.load import to_experiment
from runner.config.option_file import typed_option
from runner.config.scale import cap_params, cap_sections
from runner.config.schema import Config, Kernel, Model
from runner.estimate import model_file
from runner.paths import conf_dir
from runner.plan.errors import FamilyError
from runner.plan.expressions import Evaluator
from runner.plan.model import Plan, Target
from runner.plan.planner import make_plan

_OPTION = re.compile(r"\w{1,100}")
"""What an option may be called; anything else is a path."""


def make_companion(config: Config, config_dirs: Sequence[Path], target: Target, roots: Sequence[Path]) -> Plan | None:
    """The plan of what ``kernel.companion`` asks for; None where its parameter names no model. It has no variants: what
    is done with its buffers and kernels is the workload's.

    Raises ``ConfigError`` for a model that is neither an option nor a file, and what planning raises.
    """
    spec = config.kernel.companion
    name = str(config.kernel.params.get(spec.model, "")) if spec.family else ""
    if not name:
        return None
    folders = (*config_dirs, conf_dir())
    family = typed_option(folders, "kernel", spec.family, Kernel)
    if family is None:
        raise FamilyError(f"{config.kernel.name}: companion.family={spec.family}: there is no such kernel")
    merged = cast(DictConfig, OmegaConf.structured(config))
    merged.kernel = family
    merged.model = _model(folders, name, f"kernel.params.{spec.model}={name}")
    cap_sections(merged, ("model",))
    merged.variants = []
    made = to_experiment(merged)
    params = cap_params(made.kernel.params, made.kernel.declare) if made.scale.params else made.kernel.params
    evaluate = Evaluator(dict(config.kernel.params))
    for letter, text in spec.params.items():
        params[letter] = evaluate.value(text, f"{config.kernel.name}: companion.params.{letter}")
    plan, _ = make_plan(replace(made, kernel=replace(made.kernel, params=params)), target, roots)
    return plan


def _model(folders: Sequence[Path], name: str, where: str) -> DictConfig:
    """An option of the ``model`` group, or what a file of weights says. Raises ``ConfigError``."""
    found = typed_option(folders, "model", name, Model) if _OPTION.fullmatch(name) else None
    if found is not None:
        return found
    try:
        path = Path(name).expanduser().absolute()
        there = path.exists()
    except (OSError, RuntimeError, ValueError):  # too long a name, the home of nobody
        there = False
    if not there:
        raise ConfigError(f"{where}: an option of model, a .gguf or .safetensors file, or a folder of them")
    model = model_file.read(path)
    model.weights, model.config_json = str(path), ""
    return cast(DictConfig, OmegaConf.structured(model))
