"""``scale=smoke`` caps whatever was composed, in both ways a point comes about."""

from __future__ import annotations

import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.types import RunMode

from runner.config.compose import Composer
from runner.config.load import to_experiment
from runner.config.scale import apply_scale
from runner.config.study import expand

MODELS = ("gpt2_small", "llama3_70b", "mixtral_8x7b", "deepseek_v3", "qwen2_5_7b")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("shape", ["long_ctx", "serving"])
def test_no_dimension_is_above_its_cap(composer: Composer, model: str, shape: str) -> None:
    lines = ["kernel=toy", "scale=smoke", f"model={model}", f"shape={shape}", "shape.batch=5000"]
    config = expand(composer, lines, sweep=False).points[0].config
    for section in ("shape", "model"):
        for key, cap in getattr(config.scale, section).items():
            assert getattr(getattr(config, section), key) <= cap
    assert config.model.heads % config.model.kv_heads == 0
    assert config.model.params_total == 0
    assert config.kernel.params["B"] == 2 and config.kernel.params["T"] == 128  # the family's own caps


def test_full_scale_leaves_everything(composer: Composer) -> None:
    config = expand(composer, ["kernel=toy", "shape.batch=4000"], sweep=False).points[0].config
    assert config.shape.batch == 4000 and config.kernel.params["B"] == 4000
    assert config.model.params_total == 8_030_261_248


def test_a_bound_dimension_follows_its_source_before_it_is_capped(composer: Composer) -> None:
    lines = ["kernel=toy", "scale=smoke", "shape=bound", "model.hidden=100,200,8000", "-m"]
    points = expand(composer, lines[:-1], sweep=True).points
    assert [point.config.shape.context for point in points] == [100, 200, 256]


def test_points_that_scaling_makes_equal_are_one(composer: Composer) -> None:
    expansion = expand(composer, ["kernel=toy", "scale=smoke", "shape=long_ctx,decode"], sweep=True)
    assert [point.config.shape.name for point in expansion.points] == ["long_ctx", "decode"]
    assert len(expansion.skipped) == 3
    assert all("once scale=smoke has capped it" in skipped.reason for skipped in expansion.skipped)


def test_points_that_differ_below_the_caps_stay(composer: Composer) -> None:
    expansion = expand(composer, ["kernel=toy", "scale=smoke", "shape.context=16,32,64", "seed=0,1"], sweep=True)
    assert len(expansion.points) == 6 and not expansion.skipped


def test_the_caps_can_be_set_but_not_swept(composer: Composer) -> None:
    lines = ["kernel=toy", "scale=smoke", "scale.shape.batch=7", "shape.batch=100"]
    assert expand(composer, lines, sweep=False).points[0].config.shape.batch == 7
    with pytest.raises(Exception, match=r"scale: its caps cannot be swept"):
        expand(composer, ["kernel=toy", "scale=smoke", "scale.shape.batch=1,2"], sweep=True)


def test_a_whole_config_is_capped_as_a_point_is(
    loader: ConfigLoaderImpl, composer: Composer, family_dir: object
) -> None:
    lines = ["kernel=toy", "scale=smoke", "model=deepseek_v3", "shape=long_ctx"]
    cfg = loader.load_configuration("config", [f"hydra.searchpath=[file://{family_dir}]", *lines], run_mode=RunMode.RUN)
    from omegaconf import open_dict

    with open_dict(cfg):
        del cfg["hydra"]
    assert apply_scale(cfg)
    assert to_experiment(cfg) == expand(composer, lines, sweep=False).points[0].config
