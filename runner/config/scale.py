"""``scale=smoke``: caps every dimension of any shape, model, study or override, so that it runs in a moment.

The last step of every composition. ``scale.shape`` and ``scale.model`` give the largest value per key; with
``scale.params`` every kernel parameter is also capped at the ``cap`` its family declares, after its binding was
resolved, so that it sees the capped shape. A capped model is not the published one any more: its ``params_total``
becomes 0 (unknown).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from runner.config.errors import from_resolution
from runner.config.model_file import refuse_caps
from runner.config.schema import Param

SECTIONS = ("shape", "model")
"""What is capped by key."""


def apply_scale(cfg: DictConfig) -> bool:
    """Caps a whole composed config in place; returns whether anything was capped."""
    capped = cap_sections(cfg, SECTIONS)
    if not cfg.scale.params:
        return capped
    try:
        params = {letter: cfg.kernel.params[letter] for letter in cfg.kernel.params}
        declared = {letter: Param(cap=spec.cap) for letter, spec in cfg.kernel.declare.items()}
        for letter, value in cap_params(params, declared).items():
            if value != params[letter]:
                cfg.kernel.params[letter] = value
                capped = True
    except OmegaConfBaseException as error:
        raise from_resolution(error) from error
    return capped


def cap_sections(cfg: DictConfig, sections: Collection[str], bound: bool = True) -> bool:
    """Caps ``shape`` and ``model``, as far as they are among ``sections``; returns whether anything changed.

    Without ``bound``, values written as ``${…}`` are left for later.
    """
    capped = False
    try:
        for name in SECTIONS:
            if name in sections and _cap(cfg[name], cfg.scale[name], bound):
                capped = True
                if name == "model":
                    refuse_caps(cfg)
                    cfg.model.params_total = 0
    except OmegaConfBaseException as error:
        raise from_resolution(error) from error
    return capped


def cap_params(params: Mapping[str, Any], declare: Mapping[str, Param]) -> dict[str, Any]:
    """Resolved kernel parameters, none above its declared ``cap``."""
    return {letter: _least(value, declare.get(letter)) for letter, value in params.items()}


def _least(value: Any, declared: Param | None) -> Any:
    if declared is None or not isinstance(declared.cap, (int, float)) or not _is_number(value):
        return value
    return min(value, declared.cap)


def _cap(section: DictConfig, caps: DictConfig, bound: bool) -> bool:
    capped = False
    for key in caps:
        if OmegaConf.is_missing(section, key) or (not bound and OmegaConf.is_interpolation(section, str(key))):
            continue
        value, largest = section[key], caps[key]
        if _is_number(value) and value > largest:
            section[key] = largest
            capped = True
    return capped


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
