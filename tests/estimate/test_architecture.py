"""Every layer gets what the figures say, and figures that cannot be are refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from runner.estimate import architecture
from runner.plan.errors import PlanError
from tests.estimate.models import named, tiny

MIXTURE = {"experts": 4, "top_k": 2, "moe_intermediate": 8}
LATENT = {"kv_lora_rank": 8, "qk_nope_head_dim": 4, "qk_rope_head_dim": 2, "v_head_dim": 4}


def test_head_size_is_the_explicit_one() -> None:
    attention = named("qwen3_30b_a3b").layers[0].attention
    assert (attention.head_dim, attention.v_head_dim, attention.kv_heads) == (128, 128, 4)


def test_latent_attention_joins_both_parts_of_the_head() -> None:
    attention = named("deepseek_v3").layers[0].attention
    assert (attention.head_dim, attention.v_head_dim) == (192, 128)
    assert (attention.kv_lora_rank, attention.rope_dim, attention.q_lora_rank) == (512, 64, 1536)


def test_first_layers_are_dense_and_the_rest_routed() -> None:
    layers = named("deepseek_v3").layers
    assert [layer.mlp.experts for layer in layers] == [0] * 3 + [256] * 58
    assert (layers[0].mlp.width, layers[3].mlp.width, layers[3].mlp.shared) == (18432, 2048, 1)
    assert layers[3].mlp.router_bias


def test_only_the_named_layers_are_windowed() -> None:
    assert [layer.attention.window for layer in named("gpt_oss_120b").layers] == [128, 0] * 18


def test_a_window_without_layers_holds_for_all() -> None:
    layers = architecture.of(tiny(sliding_window=3)).layers
    assert [layer.attention.window for layer in layers] == [3, 3]


def test_biases_everywhere_reach_every_part() -> None:
    gpt2 = named("gpt2_small")
    layer = gpt2.layers[0]
    assert layer.attention.qkv_bias and layer.attention.out_bias and layer.mlp.bias and gpt2.norm_bias
    assert not layer.mlp.gated
    assert gpt2.tied and gpt2.positions == 1024


def test_bias_of_queries_keys_and_values_stays_there() -> None:
    qwen = named("qwen2_5_7b")
    layer = qwen.layers[0]
    assert layer.attention.qkv_bias
    assert not (layer.attention.out_bias or layer.mlp.bias or qwen.norm_bias)


def test_source_and_notes_come_along() -> None:
    made = architecture.of(tiny(notes=["a field was not understood"]))
    assert (made.name, made.source, made.notes) == ("tiny", "a test", ("a field was not understood",))


@pytest.mark.parametrize(
    ("figures", "message"),
    [
        ({"layers": 0}, "model.layers=0: 1 or more"),
        ({"layers": 10**9}, "model.layers=1000000000: at most 1024"),
        ({"hidden": 2**31}, "model.hidden=2147483648: at most 2147483647"),
        ({"max_positions": 10**400}, "model.max_positions=1000"),
        ({"head_dim": -4}, "model.head_dim=-4: 1 or more"),
        ({"experts": -1}, "model.experts=-1: 0 or more"),
        ({"heads": 3, "kv_heads": 2}, "model.kv_heads=2: a divisor of model.heads=3"),
        ({**MIXTURE, "top_k": 5}, "model.top_k=5: 1 to model.experts=4"),
        ({**MIXTURE, "top_k": 0}, "model.top_k=0: 1 to model.experts=4"),
        ({**MIXTURE, "moe_intermediate": 0}, "model.moe_intermediate=0: 1 or more"),
        ({**MIXTURE, "dense_layers": 3}, "model.dense_layers=3: at most model.layers=2"),
        ({**MIXTURE, "shared_gate": True}, "model.shared_gate=True: false"),
        ({"top_k": 2}, "model.top_k=2: 0, as model.experts is 0"),
        ({"router_bias": True}, "model.router_bias=True: false, as model.experts is 0"),
        ({"qk_rope_head_dim": 2}, "model.qk_rope_head_dim=2: 0, as model.kv_lora_rank is 0"),
        ({**LATENT, "v_head_dim": 0}, "model.v_head_dim=0: 1 or more"),
        ({**LATENT, "qkv_bias": True}, "model.qkv_bias=True: false"),
        ({"window_layers": [0]}, "model.window_layers=[0]: none"),
        ({"sliding_window": 4, "window_layers": [0, 2]}, "model.window_layers=2: layer numbers from 0 to 1"),
    ],
)
def test_figures_that_cannot_be_are_refused(figures: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError) as refused:
        architecture.of(tiny(**figures))
    assert str(refused.value).startswith(message)
