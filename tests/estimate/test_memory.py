"""Bytes of weights, KV cache and activations against exact figures; what fits, and how much more would."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from runner.estimate import architecture, memory, params, precision
from runner.estimate.model import Architecture, Machine, Memory, Parallel, Work
from runner.plan.errors import PlanError
from tests.estimate.models import load, named, tiny

ONE = Parallel()
KV_AT_8192_GIB = {
    "llama2_7b": 4.0,
    "llama2_70b": 2.5,
    "llama3_8b": 1.0,
    "llama3_70b": 2.5,
    "qwen2_5_7b": 0.4375,
    "qwen2_5_72b": 2.5,
    "qwen3_8b": 1.125,
    "mixtral_8x7b": 1.0,
    "deepseek_v3": 0.536,
}
H200 = Machine("h200_sxm", 4800, 143_771 << 20, {"bfloat16": 989, "float16": 989, "float8": 1979})
H100 = Machine("h100_sxm", 3350, 81_559 << 20, {"bfloat16": 989, "float16": 989, "float8": 1979})


def work(weights: str = "bfloat16", kv: str = "bfloat16", **others: Any) -> Work:
    plain = Work(
        batch=1,
        prompt=1024,
        output=128,
        weights=precision.of(weights),
        kv=precision.of(kv),
        other=precision.of("bfloat16"),
    )
    return replace(plain, **others)


def held(arch: Architecture, asked: Work, parallel: Parallel = ONE, machine: Machine = H200, **others: Any) -> Memory:
    return memory.memory(arch, asked, parallel, machine, others.get("reserve", 2_000_000_000), others.get("share", 0.9))


@pytest.mark.parametrize("name", [*KV_AT_8192_GIB, "gpt2_small", "qwen2_5_0_5b", "gpt_oss_120b", "qwen3_30b_a3b"])
def test_weights_on_one_gpu_are_the_published_count(name: str) -> None:
    assert memory.weight_bytes(named(name), work(), ONE) == 2 * load(name).params_total


@pytest.mark.parametrize("name", KV_AT_8192_GIB)
def test_kv_cache_of_8192_tokens(name: str) -> None:
    size = memory.kv_bytes(named(name), work(), ONE, 8192)
    assert size == 8192 * memory.kv_bytes_per_token(named(name), precision.of("bfloat16"), ONE)
    exact = KV_AT_8192_GIB[name]
    assert size / 2**30 == (pytest.approx(exact, abs=5e-4) if name == "deepseek_v3" else exact)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("gpt2_small", 36_864),
        ("llama2_7b", 524_288),
        ("llama3_8b", 131_072),
        ("llama3_70b", 327_680),
        ("qwen2_5_7b", 57_344),
        ("qwen3_8b", 147_456),
        ("deepseek_v3", 70_272),
    ],
)
def test_kv_bytes_of_a_token(name: str, size: int) -> None:
    assert memory.kv_bytes_per_token(named(name), precision.of("bfloat16"), ONE) == size
    assert memory.kv_bytes_per_token(named(name), precision.of("float8"), ONE) * 2 == size


def test_kv_cache_of_llama2_7b_at_32k_is_16_gib() -> None:
    assert memory.kv_bytes(named("llama2_7b"), work(), ONE, 32_768) == 16 * 2**30


def test_kv_cache_of_qwen2_5_7b_is_a_ninth_of_llama2_7b() -> None:
    kv = precision.of("float16")
    ratio = memory.kv_bytes_per_token(named("llama2_7b"), kv, ONE) / memory.kv_bytes_per_token(
        named("qwen2_5_7b"), kv, ONE
    )
    assert ratio == 1024 / 112


def test_a_windowed_layer_caches_its_window() -> None:
    arch = named("gpt_oss_120b")
    assert memory.kv_bytes(arch, work(), ONE, 8192) == 306_708_480
    assert 8192 * memory.kv_bytes_per_token(arch, precision.of("bfloat16"), ONE) == 603_979_776
    assert memory.kv_bytes(arch, work(), ONE, 100) == 100 * memory.kv_bytes_per_token(arch, work().kv, ONE)


def test_scales_of_a_quantised_cache_are_counted() -> None:
    plain = memory.kv_bytes_per_token(named("llama3_8b"), precision.of("int8"), ONE)
    scaled = memory.kv_bytes_per_token(named("llama3_8b"), precision.of("int8_g128"), ONE)
    assert plain == 65_536
    assert scaled - plain == 32 * 2 * 8 * 2  # layers, key and value, heads, two bytes


def test_the_latent_cache_layout_is_for_latent_attention_only() -> None:
    layout = precision.of("fp8_ds_mla")
    assert memory.kv_bytes_per_token(named("deepseek_v3"), layout, ONE) == 61 * 656
    with pytest.raises(PlanError, match=r"estimate.kv=fp8_ds_mla"):
        memory.kv_bytes_per_token(named("llama3_8b"), layout, ONE)
    with pytest.raises(PlanError, match=r"estimate.weights=fp8_ds_mla"):
        memory.weight_bytes(named("deepseek_v3"), work("fp8_ds_mla"), ONE)


def test_tensor_parallelism_divides_kv_heads_down_to_one() -> None:
    arch, kv = named("llama3_70b"), precision.of("bfloat16")
    sizes = [memory.kv_bytes_per_token(arch, kv, Parallel(tensor=tensor)) for tensor in (1, 2, 4, 8, 16)]
    assert sizes == [327_680, 163_840, 81_920, 40_960, 40_960]


def test_latent_cache_is_held_by_every_gpu() -> None:
    arch, kv = named("deepseek_v3"), precision.of("bfloat16")
    assert memory.kv_bytes_per_token(arch, kv, Parallel(tensor=8)) == 70_272


def test_a_stage_caches_for_its_own_layers() -> None:
    kv = precision.of("bfloat16")
    assert memory.kv_bytes_per_token(named("llama3_70b"), kv, Parallel(pipeline=2)) == 327_680 // 2
    assert memory.kv_bytes_per_token(named("deepseek_v3"), kv, Parallel(pipeline=4)) == 16 * 576 * 2


def test_quantised_weights_leave_tables_norms_and_head_in_16_bits() -> None:
    counts = params.count(named("llama3_70b"))
    linear = counts.total - counts.embedding - counts.head - counts.norms
    size = memory.weight_bytes(named("llama3_70b"), work("float8"), ONE)
    assert size == linear + 2 * (counts.embedding + counts.head + counts.norms)
    # published bytes of a decode step at batch 4 and 1,536 tokens, embedding not read: 71.56 GB
    kv = memory.kv_bytes(named("llama3_70b"), work(kv="float8", batch=4), ONE, 1536)
    assert size - 2 * counts.embedding + kv == pytest.approx(71.56e9, rel=1e-4)


def test_biases_router_and_shared_gate_are_not_quantised() -> None:
    arch = architecture.of(
        tiny(
            experts=4,
            top_k=2,
            shared_experts=1,
            shared_gate=True,
            moe_intermediate=6,
            qkv_bias=True,
            mlp_bias=True,
            router_bias=True,
        )
    )
    attention = 8 * 8 + 2 * 8 * 4 + 8 * 8
    experts = 5 * 3 * 8 * 6
    other = (8 + 2 * 4) + 5 * (2 * 6 + 8) + (8 * 4 + 4) + 8 + 2 * 8
    outside = 2 * 80 + 8
    asked = work("int8")
    assert memory.weight_bytes(arch, asked, ONE) == 2 * (attention + experts) + 2 * (2 * other + outside)
    assert memory.weight_bytes(arch, work(), ONE) == 2 * params.count(arch).total


def test_tensor_parallelism_divides_all_but_the_norms() -> None:
    counts = params.count(named("llama3_70b"))
    size = memory.weight_bytes(named("llama3_70b"), work(), Parallel(tensor=8))
    assert size == 2 * ((counts.total - counts.norms) // 8 + counts.norms)


def test_tensor_parallelism_copies_the_down_projections_of_latent_attention() -> None:
    arch = named("deepseek_v3")
    counts = params.count(arch)
    down = 61 * 7168 * (1536 + 512 + 64)
    vectors = 61 * (1536 + 512)
    whole = down + vectors + counts.norms + counts.router
    for expert in (1, 8):
        size = memory.weight_bytes(arch, work(), Parallel(tensor=8, expert=expert))
        assert size == 2 * ((counts.total - whole) // 8 + whole)


def test_the_largest_stage_counts() -> None:
    arch = named("llama3_70b")
    counts = params.count(arch)
    layers = counts.total - counts.embedding - counts.head - arch.hidden
    # the last of two stages has the head and the final norm beside its forty layers
    assert memory.weight_bytes(arch, work(), Parallel(pipeline=2)) == layers + 2 * (counts.head + arch.hidden)


def test_a_tied_table_is_held_at_both_ends_of_a_pipeline() -> None:
    arch = named("qwen2_5_0_5b")
    counts = params.count(arch)
    layers = counts.total - counts.embedding - arch.hidden
    assert memory.weight_bytes(arch, work(), Parallel(pipeline=2)) == layers + 2 * (counts.embedding + arch.hidden)


def test_activations_of_a_prompt() -> None:
    arch = named("llama3_8b")
    widest = 3 * 14_336
    assert memory.activation_bytes(arch, work(prompt=2048), ONE) == 2048 * (2 * 4096 + widest) * 2
    assert memory.activation_bytes(arch, work(prompt=2048, chunk=512), ONE) == 512 * (2 * 4096 + widest) * 2
    assert memory.activation_bytes(arch, work(prompt=2048, prefix_share=0.75), ONE) == 512 * (2 * 4096 + widest) * 2
    half = memory.activation_bytes(arch, work(prompt=2048), Parallel(tensor=2))
    assert half == 2048 * (2 * 4096 + widest // 2) * 2


def test_activations_of_a_decode_step_are_its_logits() -> None:
    arch = named("llama3_8b")
    assert memory.activation_bytes(arch, work(prompt=1), ONE) == 2 * 4096 * 2 + 128_256 * 4
    drafted = memory.activation_bytes(arch, work(prompt=1, batch=8, speculative=3), ONE)
    assert drafted == 32 * (2 * 4096 * 2 + 128_256 * 4)


def test_activations_of_experts_count_those_a_token_passes() -> None:
    arch = named("deepseek_v3")
    width = 8 * (3 * 2048 + 7168) + 3 * 2048
    attention = 128 * 2 * (192 + 128)
    assert memory.activation_bytes(arch, work(prompt=4096), ONE) == 4096 * (2 * 7168 + max(width, attention)) * 2
    spread = memory.activation_bytes(arch, work(prompt=4096), Parallel(tensor=8, expert=8))
    assert spread == 4096 * (2 * 7168 + width - 3 * 2048 + 3 * 256) * 2


def test_what_is_available_and_what_is_kept() -> None:
    found = held(named("llama3_8b"), work(batch=4), reserve=3_000_000_000, share=0.5)
    assert found.available == (143_771 << 20) // 2
    assert found.reserve == 3_000_000_000
    assert found.weights == 2 * 8_030_261_248
    assert found.kv == 4 * 1152 * 131_072


def test_a_70b_model_in_16_bits_needs_two_gpus_of_80_gb() -> None:
    arch = named("llama3_70b")
    for machine in (H100, replace(H100, memory_bytes=80_000_000_000)):
        assert not held(arch, work(), machine=machine, share=1.0).fits
        assert held(arch, work(), Parallel(tensor=2), machine, share=1.0).fits
        assert held(arch, work(), Parallel(pipeline=2), machine, share=1.0).fits
    assert held(arch, work(), Parallel(tensor=2), H100).fits
    assert memory.max_batch(arch, work(), ONE, H100, 0, 1.0) == 0
    assert memory.max_context(arch, work(), ONE, H100, 0, 1.0) == 0


@pytest.mark.parametrize(("prompt", "output"), [(1024, 8192), (8192, 1024)])
def test_32_users_fit_an_h200_with_a_float8_cache_and_64_wait(prompt: int, output: int) -> None:
    arch = named("llama3_70b")
    for batch, fits in ((32, True), (64, False)):
        asked = work("float8", "float8", batch=batch, prompt=prompt, output=output)
        assert held(arch, asked).fits is fits
    assert not held(arch, work("float8", "bfloat16", batch=32, prompt=prompt, output=output)).fits


def test_the_largest_batch_fits_and_one_more_does_not() -> None:
    arch, asked = named("llama3_70b"), work("float8", "float8", prompt=1024, output=8192)
    batch = memory.max_batch(arch, asked, ONE, H200, 2_000_000_000, 0.9)
    assert 32 <= batch < 64
    assert held(arch, replace(asked, batch=batch)).fits
    assert not held(arch, replace(asked, batch=batch + 1)).fits


@pytest.mark.parametrize("chunk", [0, 2048])
def test_the_longest_context_fits_and_one_token_more_does_not(chunk: int) -> None:
    arch, asked = named("llama3_8b"), work(batch=3, chunk=chunk)
    context = memory.max_context(arch, asked, ONE, H200, 2_000_000_000, 0.9)
    assert context is not None and context > asked.output
    assert held(arch, memory.with_context(asked, context)).fits
    assert not held(arch, memory.with_context(asked, context + 1)).fits


def test_chunked_prefill_leaves_room_for_a_longer_context() -> None:
    arch = named("llama3_8b")
    whole, chunked = (memory.max_context(arch, work(chunk=chunk), ONE, H200, 0, 0.9) for chunk in (0, 2048))
    assert whole is not None and chunked is not None and whole < chunked


def test_a_position_table_ends_the_context() -> None:
    assert memory.max_context(named("gpt2_small"), work(), ONE, H200, 0, 0.9) == 1024


def test_windows_everywhere_leave_no_longest_context() -> None:
    arch = architecture.of(tiny(sliding_window=16))
    assert memory.max_context(arch, work(chunk=8), ONE, H200, 0, 0.9) is None
    assert memory.crossover_context(architecture.of(tiny(sliding_window=16)), work(), ONE) is None


def test_with_context_keeps_the_output_where_it_can() -> None:
    asked = work()
    assert (memory.with_context(asked, 4096).prompt, memory.with_context(asked, 4096).output) == (3968, 128)
    assert (memory.with_context(asked, 100).prompt, memory.with_context(asked, 100).output) == (1, 99)
    assert (memory.with_context(asked, 1).prompt, memory.with_context(asked, 1).output) == (1, 0)


@pytest.mark.parametrize(("name", "tokens"), [("llama2_7b", 25_706), ("llama3_8b", 122_533)])
def test_where_the_cache_passes_the_weights(name: str, tokens: int) -> None:
    arch = named(name)
    assert memory.crossover_context(arch, work(), ONE) == tokens
    weights = memory.weight_bytes(arch, work(), ONE)
    assert memory.kv_bytes(arch, work(), ONE, tokens) >= weights > memory.kv_bytes(arch, work(), ONE, tokens - 1)


def test_llama3_8b_crosses_at_8192_output_tokens_from_batch_14_up() -> None:
    first = min(
        batch
        for batch in range(1, 32)
        if (memory.crossover_context(named("llama3_8b"), work(batch=batch), ONE) or 0) <= 1024 + 8192
    )
    assert first == 14


@pytest.mark.parametrize("tied", [False, True])
def test_a_head_of_its_own_precision_takes_the_tied_table_with_it(tied: bool) -> None:
    """10 words · 8 hidden: 80 elements of the head, 8.25 bits each instead of 16."""
    arch = architecture.of(tiny(tied_embeddings=tied))
    bf16 = precision.of("bfloat16")
    plain = Work(1, 4, 4, bf16, bf16, bf16)
    quantised = replace(plain, head=precision.of("w8a16"))
    saved = memory.weight_bytes(arch, plain, Parallel()) - memory.weight_bytes(arch, quantised, Parallel())
    assert saved == pytest.approx(80 * (16 - 8.25) / 8, abs=1)
