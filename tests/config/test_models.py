"""Every model's parameter count, recomputed from its architecture, equals the published one exactly."""

from __future__ import annotations

from typing import Any

import pytest
from omegaconf import OmegaConf

from runner.config.load import build
from runner.config.schema import Model
from runner.estimate import architecture, params
from runner.paths import conf_dir

FILES = sorted((conf_dir() / "model").glob("*.yaml"))
DECODE_STREAM = {
    "gpt2_small": 123_653_376,
    "llama2_7b": 6_607_343_616,
    "llama2_70b": 68_714_504_192,
    "llama3_8b": 7_504_924_672,
    "llama3_1_8b": 7_504_924_672,
    "llama3_2_1b": 1_235_814_400,
    "llama3_70b": 69_503_033_344,
    "qwen2_5_7b": 7_070_619_136,
    "qwen2_5_72b": 71_460_495_360,
    "qwen3_8b": 7_568_405_504,
    "qwen2_5_0_5b": 494_032_768,
    "deepseek_v3": 36_625_618_432,
}
"""Parameters read by a decode step of one token: all but the tables that are only looked up and the experts that are
not chosen."""
ACTIVE = {
    "mixtral_8x7b": 12_879_925_248,
    "deepseek_v3": 37_552_297_472,
    "gpt_oss_120b": 5_711_982_912,
    "qwen3_30b_a3b": 3_353_032_704,
}
KV_ELEMENTS = {
    "gpt2_small": 18_432,
    "llama2_7b": 262_144,
    "llama2_70b": 163_840,
    "llama3_8b": 65_536,
    "llama3_70b": 163_840,
    "qwen2_5_7b": 28_672,
    "qwen2_5_72b": 163_840,
    "qwen3_8b": 73_728,
    "mixtral_8x7b": 65_536,
    "deepseek_v3": 35_136,
}
"""Cached elements per token, all layers."""


def load(name: str) -> Model:
    merged = OmegaConf.merge(OmegaConf.structured(Model), OmegaConf.load(conf_dir() / "model" / f"{name}.yaml"))
    plain: Any = OmegaConf.to_container(merged, throw_on_missing=True)
    return build(Model, plain)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_params_total_equals_the_architecture(file: Any) -> None:
    model = load(file.stem)
    assert params.count(architecture.of(model)).total == model.params_total


@pytest.mark.parametrize("name", DECODE_STREAM)
def test_decode_streams_everything_but_lookups_and_idle_experts(name: str) -> None:
    model = load(name)
    assert params.count(architecture.of(model)).streamed(1) == DECODE_STREAM[name]


@pytest.mark.parametrize("name", KV_ELEMENTS)
def test_kv_elements_per_token(name: str) -> None:
    m = load(name)
    per_layer = m.kv_lora_rank + m.qk_rope_head_dim if m.kv_lora_rank else 2 * m.kv_heads * m.head_dim
    assert m.layers * per_layer == KV_ELEMENTS[name]


@pytest.mark.parametrize("name", ACTIVE)
def test_active_parameters_of_the_mixtures(name: str) -> None:
    assert params.count(architecture.of(load(name))).active == ACTIVE[name]


def test_every_model_says_where_its_figures_come_from() -> None:
    for file in FILES:
        model = load(file.stem)
        assert model.name == file.stem
        assert model.title and "config.json" in model.source


def test_heads_are_shared_evenly() -> None:
    for file in FILES:
        assert load(file.stem).heads % load(file.stem).kv_heads == 0
