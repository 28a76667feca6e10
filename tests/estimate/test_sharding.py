"""What one GPU holds of a layer, which layers a stage holds, and spreads that cannot be."""

from __future__ import annotations

import pytest

from runner.estimate import sharding
from runner.estimate.model import Parallel
from runner.plan.errors import PlanError
from tests.estimate.models import named


@pytest.mark.parametrize(
    ("pipeline", "sizes"), [(1, [61]), (2, [31, 30]), (4, [15, 15, 16, 15]), (8, [7, 7, 8, 8, 8, 8, 8, 7])]
)
def test_layers_left_over_go_to_the_stages_before_the_last(pipeline: int, sizes: list[int]) -> None:
    arch = named("deepseek_v3")
    stages = sharding.stages(arch, Parallel(pipeline=pipeline))
    assert [len(stage.layers) for stage in stages] == sizes
    assert tuple(layer for stage in stages for layer in stage.layers) == arch.layers
    assert [stage.first for stage in stages] == [True] + [False] * (pipeline - 1)
    assert [stage.last for stage in stages] == [False] * (pipeline - 1) + [True]


def test_each_gpu_has_its_share_of_heads_and_at_least_one_kv_head() -> None:
    part = named("llama3_70b").layers[0].attention
    for tensor, heads, kv_heads in ((1, 64, 8), (8, 8, 1), (16, 4, 1)):
        shard = sharding.attention(part, Parallel(tensor=tensor))
        assert (shard.heads, shard.kv_heads, shard.head_dim) == (heads, kv_heads, 128)


def test_the_latent_stays_whole() -> None:
    part = named("deepseek_v3").layers[0].attention
    shard = sharding.attention(part, Parallel(tensor=8))
    assert (shard.heads, shard.q_lora_rank, shard.kv_lora_rank, shard.rope_dim) == (16, 1536, 512, 64)


def test_experts_are_spread_whole_or_in_parts() -> None:
    part = named("deepseek_v3").layers[-1].mlp
    for expert, experts, width in ((1, 256, 256), (4, 64, 1024), (8, 32, 2048)):
        shard = sharding.routed(part, Parallel(tensor=8, expert=expert))
        assert (shard.experts, shard.width) == (experts, width)
    assert sharding.mlp(part, Parallel(tensor=8, expert=8)).width == 256


@pytest.mark.parametrize(
    ("model", "parallel", "message"),
    [
        ("llama3_8b", Parallel(tensor=0), "estimate.tensor=0: must be at least 1"),
        ("qwen2_5_0_5b", Parallel(tensor=4), "estimate.tensor=4: must divide the 14 heads"),
        ("qwen2_5_72b", Parallel(tensor=3), "estimate.tensor=3: must divide the 64 heads"),
        ("llama3_8b", Parallel(pipeline=33), "estimate.pipeline=33: .* has 32 layers"),
        ("llama3_8b", Parallel(tensor=2, expert=2), "estimate.expert=2: .* has no experts"),
        ("mixtral_8x7b", Parallel(expert=2), "estimate.expert=2: must divide estimate.tensor=1"),
        ("mixtral_8x7b", Parallel(tensor=16, expert=16), "estimate.expert=16: .* has 8 experts"),
    ],
)
def test_a_spread_that_cannot_be_is_refused(model: str, parallel: Parallel, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        sharding.check(named(model), parallel)
