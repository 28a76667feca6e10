"""Counts against hand-counted small models; tests/config/test_models.py holds those of every model that is shipped."""

from __future__ import annotations

import numpy
import pytest

from runner.estimate import architecture, params
from runner.paths import conf_dir
from tests.estimate.models import named, tiny

NAMES = sorted(file.stem for file in (conf_dir() / "model").glob("*.yaml"))


def test_a_small_dense_decoder_counted_by_hand() -> None:
    counts = params.count(architecture.of(tiny()))
    assert counts.embedding == counts.head == 80
    assert counts.attention == 2 * (64 + 32 + 32 + 64)
    assert counts.mlp == 2 * 3 * 8 * 16
    assert counts.norms == 5 * 8
    assert (counts.positions, counts.router, counts.experts, counts.shared) == (0, 0, 0, 0)
    assert counts.total == counts.active == 80 + 80 + 384 + 768 + 40
    assert counts.streamed(1) == counts.streamed(7) == counts.total - 80


def test_biases_q_k_norms_and_sinks_counted_by_hand() -> None:
    plain = params.count(architecture.of(tiny())).attention
    figures = {"qkv_bias": 8 + 4 + 4, "out_bias": 8, "qk_norm": 2 * 4, "attention_sinks": 2}
    for key, each in figures.items():
        assert params.count(architecture.of(tiny(**{key: True}))).attention == plain + 2 * each


def test_latent_attention_counted_by_hand() -> None:
    latent = {"kv_lora_rank": 6, "qk_nope_head_dim": 4, "qk_rope_head_dim": 2, "v_head_dim": 3}
    direct = 8 * 2 * 6 + 8 * (6 + 2) + 6 + 6 * 2 * (4 + 3) + 2 * 3 * 8
    assert params.count(architecture.of(tiny(**latent))).attention == 2 * direct
    compressed = direct - 8 * 2 * 6 + 8 * 5 + 5 + 5 * 2 * 6
    assert params.count(architecture.of(tiny(**latent, q_lora_rank=5))).attention == 2 * compressed


def test_a_mixture_counted_by_hand() -> None:
    made = architecture.of(
        tiny(experts=4, top_k=2, moe_intermediate=5, dense_layers=1, shared_experts=1, shared_gate=True)
    )
    counts = params.count(made)
    one = 3 * 8 * 5
    assert counts.mlp == 3 * 8 * 16
    assert counts.experts == 4 * one
    assert counts.shared == one + 8
    assert counts.router == 8 * 4
    assert counts.active == counts.total - 2 * one
    assert counts.streamed(1) == counts.active - counts.embedding
    assert counts.streamed(10_000) == counts.total - counts.embedding


def test_parts_of_the_big_mixture_are_the_published_ones() -> None:
    deepseek, mixtral = named("deepseek_v3"), named("mixtral_8x7b")
    assert params.attention(deepseek.layers[0].attention, 7168) == 187_107_328
    assert params.expert(deepseek.layers[3].mlp, 7168) == 44_040_192
    assert params.expert(mixtral.layers[0].mlp, 4096) == 176_160_768
    assert sum(layer.mlp.experts for layer in deepseek.layers if layer.mlp.router_bias) == 14_848


@pytest.mark.parametrize("name", NAMES)
def test_layers_tables_and_final_norm_add_up(name: str) -> None:
    made = named(name)
    counts = params.count(made)
    beside = counts.embedding + counts.positions + counts.head + params.norm(made)
    assert sum(params.layer(layer, made) for layer in made.layers) + beside == counts.total


@pytest.mark.parametrize(
    ("experts", "top_k", "expected"),
    [
        (128, 8, {1: 8.0, 2: 15.5, 4: 29.1, 8: 51.6, 16: 82.4, 32: 111.8, 64: 125.9, 128: 128.0}),
        (8, 2, {1: 2.0, 2: 3.5, 4: 5.5, 8: 7.2, 16: 7.9}),
    ],
)
def test_distinct_experts_of_an_even_choice(experts: int, top_k: int, expected: dict[int, float]) -> None:
    for tokens, number in expected.items():
        assert round(params.distinct_experts(experts, top_k, tokens), 1) == number


def test_skew_reads_fewer_experts_down_to_those_that_all_choose() -> None:
    series = [params.distinct_experts(128, 8, 16, skew) for skew in (0, 0.25, 0.5, 0.75, 1)]
    assert series == sorted(series, reverse=True)
    assert series[-1] == 8
    for skew in (0, 0.3, 1):
        assert params.distinct_experts(128, 8, 1, skew) == pytest.approx(8)


def test_distinct_experts_by_simulation_under_skew() -> None:
    random = numpy.random.default_rng(0)
    experts, top_k, tokens, skew, trials = 16, 4, 6, 0.4, 4000
    hit = 0
    for _ in range(trials):
        chosen = {
            int(one)
            for _ in range(tokens)
            for one in (range(top_k) if random.random() < skew else random.permutation(experts)[:top_k])
        }
        hit += len(chosen)
    assert hit / trials == pytest.approx(params.distinct_experts(experts, top_k, tokens, skew), rel=0.01)
