"""Config objects from composed configs."""

from __future__ import annotations

import pytest
from omegaconf import OmegaConf

from runner.config.compose import Composer
from runner.config.errors import ConfigError
from runner.config.load import build, resolved_params, to_experiment
from runner.config.schema import CheckSpec, Config, LaunchSpec, Shape, VariantSpec
from runner.config.study import expand


def test_equals_omegaconfs_own_conversion(composer: Composer) -> None:
    cfg = composer.head(["kernel=toy"], []).cfg
    assert to_experiment(cfg) == OmegaConf.to_object(cfg)


def test_nested_parts_are_dataclasses(composer: Composer) -> None:
    config = expand(composer, ["kernel=toy"], sweep=False).points[0].config
    variant = config.kernel.variants["fp32"]
    assert isinstance(variant, VariantSpec)
    assert isinstance(variant.launches[0], LaunchSpec) and isinstance(variant.checks["kv_scan"], CheckSpec)
    assert config.kernel.declare["B"].cap == 2
    assert config.variants is None


def test_a_config_passes_through(composer: Composer) -> None:
    config = expand(composer, ["kernel=toy"], sweep=False).points[0].config
    assert to_experiment(config) is config


def test_a_missing_value_is_named() -> None:
    cfg = OmegaConf.structured(Config)
    with pytest.raises(ConfigError, match=r"kernel.name: has no value"):
        to_experiment(cfg)


def test_references_are_followed_as_omegaconf_does(composer: Composer) -> None:
    cfg = composer.head(["kernel=toy", "shape=bound"], ["kernel.params.S=${oc.decode:'7'}"]).cfg
    assert resolved_params(cfg) == OmegaConf.to_container(cfg.kernel.params, resolve=True)


def test_a_broken_reference_is_named(composer: Composer) -> None:
    cfg = composer.head(["kernel=toy"], ["kernel.params.B=${shape.bach}"]).cfg
    with pytest.raises(ConfigError, match="bach"):
        resolved_params(cfg)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"shape: 'bach' is not one of its keys; did you mean 'batch'\?"):
        build(Shape, {"name": "s", "bach": 1})
