"""Every model's parameter count, recomputed from its architecture, equals the published one exactly."""

from __future__ import annotations

from typing import Any

import pytest
from omegaconf import OmegaConf

from runner.config.load import build
from runner.config.schema import Model
from runner.paths import conf_dir

FILES = sorted((conf_dir() / "model").glob("*.yaml"))
DECODE_STREAM = {
    "llama2_7b": 6_607_343_616,
    "llama2_70b": 68_714_504_192,
    "llama3_8b": 7_504_924_672,
    "llama3_70b": 69_503_033_344,
    "qwen2_5_7b": 7_070_619_136,
    "qwen2_5_72b": 71_460_495_360,
    "qwen3_8b": 7_568_405_504,
}
"""Parameters read per decode step: all but the input embedding (untied models)."""
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


def attention(m: Model) -> int:
    if m.kv_lora_rank:
        qk = m.qk_nope_head_dim + m.qk_rope_head_dim
        query = m.hidden * m.q_lora_rank + m.q_lora_rank + m.q_lora_rank * m.heads * qk
        latent = m.hidden * (m.kv_lora_rank + m.qk_rope_head_dim) + m.kv_lora_rank
        expanded = m.kv_lora_rank * m.heads * (m.qk_nope_head_dim + m.v_head_dim)
        return query + latent + expanded + m.heads * m.v_head_dim * m.hidden
    q, kv, d = m.heads, m.kv_heads, m.head_dim
    count = m.hidden * q * d + 2 * m.hidden * kv * d + q * d * m.hidden
    if m.qkv_bias or m.biases:
        count += q * d + 2 * kv * d
    if m.biases:
        count += m.hidden
    return count + (2 * d if m.qk_norm else 0)


def mlp(m: Model, width: int) -> int:
    if m.gated_mlp:
        return 3 * m.hidden * width
    return 2 * m.hidden * width + (width + m.hidden if m.biases else 0)


def total(m: Model) -> int:
    norm = 2 * m.hidden if m.biases else m.hidden
    dense = m.dense_layers if m.experts else m.layers
    experts = (m.experts + m.shared_experts) * mlp(m, m.moe_intermediate)
    router = m.hidden * m.experts + (m.experts if m.router_bias else 0)
    layers = m.layers * (attention(m) + 2 * norm) + dense * mlp(m, m.intermediate)
    layers += (m.layers - dense) * (experts + router)
    tables = m.vocab * m.hidden * (1 if m.tied_embeddings else 2) + m.max_positions * m.hidden
    return layers + norm + tables


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_params_total_equals_the_architecture(file: Any) -> None:
    model = load(file.stem)
    assert total(model) == model.params_total


@pytest.mark.parametrize("name", DECODE_STREAM)
def test_decode_streams_everything_but_the_input_embedding(name: str) -> None:
    model = load(name)
    assert model.params_total - model.vocab * model.hidden == DECODE_STREAM[name]


@pytest.mark.parametrize("name", KV_ELEMENTS)
def test_kv_elements_per_token(name: str) -> None:
    m = load(name)
    per_layer = m.kv_lora_rank + m.qk_rope_head_dim if m.kv_lora_rank else 2 * m.kv_heads * m.head_dim
    assert m.layers * per_layer == KV_ELEMENTS[name]


def test_active_parameters_of_the_mixtures() -> None:
    mixtral, deepseek = load("mixtral_8x7b"), load("deepseek_v3")
    idle = (mixtral.experts - mixtral.top_k) * mlp(mixtral, mixtral.moe_intermediate) * mixtral.layers
    assert mixtral.params_total - idle == 12_879_925_248
    routed = deepseek.layers - deepseek.dense_layers
    idle = (deepseek.experts - deepseek.top_k) * mlp(deepseek, deepseek.moe_intermediate) * routed
    assert deepseek.params_total - idle == 37_552_297_472


def test_every_model_says_where_its_figures_come_from() -> None:
    for file in FILES:
        model = load(file.stem)
        assert model.name == file.stem
        assert model.title and "config.json" in model.source


def test_heads_are_shared_evenly() -> None:
    for file in FILES:
        assert load(file.stem).heads % load(file.stem).kv_heads == 0
