"""FLOPs and bytes against counts by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from runner.estimate import operators, params, precision
from runner.estimate.architecture import of
from runner.estimate.model import Operator, Parallel, Phase, Work
from runner.plan.errors import PlanError
from tests.estimate.models import named, tiny

BF16 = precision.of("bfloat16")
FP8 = precision.of("float8")
ONE = Parallel()


def work(batch: int = 1, prompt: int = 1024, output: int = 256, **more: Any) -> Work:
    return replace(Work(batch, prompt, output, BF16, BF16, BF16), **more)


def operator(phase: Phase, name: str) -> Operator:
    (found,) = [one for one in phase.operators if one.name == name]
    return found


def names(phase: Phase) -> list[str]:
    return [one.name for one in phase.operators]


def weights(phase: Phase) -> float:
    return sum(one.weight_bytes for one in phase.operators)


def kv(phase: Phase) -> float:
    return sum(one.kv_bytes for one in phase.operators)


def test_a_small_model_by_hand() -> None:
    """Two layers, h 8, q 8, one KV head of 4, width 16, ten words; three sequences of four tokens."""
    arch = of(tiny())
    phase = operators.prefill(arch, work(3, 4), ONE)
    qkv, out, mlp, head = 8 * (8 + 4 + 4), 8 * 8, 3 * 8 * 16, 10 * 8
    assert operator(phase, "qkv_proj").flops == 2 * 2 * qkv * 12
    assert operator(phase, "out_proj").flops == 2 * 2 * out * 12
    assert operator(phase, "mlp").flops == 2 * 2 * mlp * 12
    assert operator(phase, "lm_head").flops == 2 * head * 3
    assert operator(phase, "attention").flops == 2 * (4 * 8) * (1 + 2 + 3 + 4) * 3
    assert operator(phase, "attention").kv_bytes == 2 * (4 + 4) * 8 * 2 * 3
    assert weights(phase) == 2 * (2 * (qkv + out + mlp + 2 * 8) + 8 + head)
    step = operators.decode(arch, work(3, 4), ONE, 5)
    assert step.flops == 3 * 2 * (2 * (qkv + out + mlp) + head) + 3 * 2 * (4 * 8) * 5
    assert kv(step) == 3 * 2 * (5 + 1) * 8 * 2


def test_the_prefill_of_llama_3_8b() -> None:
    """1024 tokens: 14.294e12 in the layers, 0.275e12 in attention, and the head for the last token. Two for every
    parameter and token, tables included, would be 16.45e12."""
    arch = named("llama3_8b")
    phase = operators.prefill(arch, work(), ONE)
    counts = params.count(arch)
    matrices = 32 * (
        params.attention_matrices(arch.layers[0].attention, 4096) + params.expert(arch.layers[0].mlp, 4096)
    )
    assert operator(phase, "attention").flops == 2 * 32 * 4096 * 1024 * 1025
    assert operator(phase, "attention").flops == pytest.approx(0.275e12, rel=2e-3)
    assert phase.flops == 2 * matrices * 1024 + 2 * 128256 * 4096 + 2 * 32 * 4096 * 1024 * 1025
    assert 2 * counts.total * 1024 == pytest.approx(16.45e12, rel=1e-3)


@pytest.mark.parametrize(("prompt", "ms"), [(2048, 30.0), (8192, 133.4), (32768, 746.8)])
def test_prefill_flops_over_the_peak_of_an_h100(prompt: int, ms: float) -> None:
    flops = operators.prefill(named("llama3_8b"), work(prompt=prompt), ONE).flops
    assert 1e3 * flops / 989e12 == pytest.approx(ms, rel=1e-3)


def test_attention_of_256_steps_sees_the_prompt_too() -> None:
    arch = named("llama3_8b")
    steps = [operator(operators.decode(arch, work(), ONE, 1024 + k), "attention").flops for k in range(1, 257)]
    assert sum(steps) == pytest.approx(0.155e12, rel=3e-3)
    mean = operator(operators.decode(arch, work(), ONE, 1024 + 257 / 2), "attention").flops
    assert 256 * mean == pytest.approx(sum(steps))


def test_a_step_at_8192_tokens_reads_weights_without_the_input_table_and_the_cache() -> None:
    phase = operators.decode(named("llama3_8b"), work(), ONE, 8192)
    assert weights(phase) == 2 * 7_504_924_672
    assert kv(phase) == (8192 + 1) * 131_072
    assert phase.bytes == pytest.approx(15.0098e9 + 1.0737e9, rel=1e-3)


def test_a_long_output_stays_memory_bound() -> None:
    phase = operators.decode(named("llama3_8b"), work(output=8192), ONE, 1024 + 8193 / 2)
    assert phase.flops / phase.bytes == pytest.approx(1.1, abs=0.05)


@pytest.mark.parametrize(
    "name", ["gpt2_small", "llama2_7b", "qwen2_5_7b", "mixtral_8x7b", "deepseek_v3", "gpt_oss_120b"]
)
@pytest.mark.parametrize("batch", [1, 5])
def test_a_step_reads_what_the_counts_say_is_streamed(name: str, batch: int) -> None:
    arch = named(name)
    phase = operators.decode(arch, work(batch), ONE, 1000)
    assert weights(phase) == pytest.approx(2 * params.count(arch).streamed(batch), rel=1e-12)


def test_bytes_of_llama_3_70b_in_8_bits() -> None:
    """Linear layers and KV in 8 bits, head in 16: 71.56e9 byte at batch 4 and 1536 tokens."""
    arch = named("llama3_70b")
    eight = replace(work(4, 1024, 1024), weights=FP8, kv=FP8)
    phase = operators.decode(arch, eight, ONE, 1536)
    assert weights(phase) + kv(phase) == pytest.approx(71.56e9, rel=2e-4)
    assert operator(phase, "mlp").compute == "float8"
    assert operator(phase, "attention").compute == operator(phase, "lm_head").compute == "bfloat16"


def test_a_cached_prefix_leaves_linear_work_out_and_is_seen_by_attention() -> None:
    arch = named("llama3_8b")
    whole, half = (operators.prefill(arch, work(prompt=1000, prefix_share=share), ONE) for share in (0.0, 0.5))
    assert operator(half, "mlp").flops == operator(whole, "mlp").flops / 2
    assert operator(half, "attention").flops == 2 * 32 * 4096 * (1000 * 1001 - 500 * 501)
    assert operator(half, "attention").kv_bytes == (1000 + 500) * 131_072
    last = operators.prefill(arch, work(prompt=1000, prefix_share=1.0), ONE)
    assert operator(last, "attention").flops == 4 * 32 * 4096 * 1000
    assert operators.uncached(work(prompt=1000, prefix_share=1.0)) == 1


def test_chunks_read_the_weights_again_and_what_came_before() -> None:
    arch = named("llama3_8b")
    whole = operators.prefill(arch, work(prompt=1000), ONE)
    chunked = operators.prefill(arch, work(prompt=1000, chunk=300), ONE)
    assert operators.passes(work(prompt=1000, chunk=300)) == 4
    assert chunked.flops == whole.flops
    assert operator(chunked, "mlp").weight_bytes == 4 * operator(whole, "mlp").weight_bytes
    assert operator(chunked, "lm_head").weight_bytes == operator(whole, "lm_head").weight_bytes
    assert operator(chunked, "attention").kv_bytes == (300 + 600 + 900 + 1000 + 1000) * 131_072
    assert operators.passes(work(4, 100, chunk=256)) == 2


@pytest.mark.parametrize("before", [0, 3, 9])
@pytest.mark.parametrize("new", [1, 4, 17])
@pytest.mark.parametrize("chunk", [0, 1, 5, 100])
@pytest.mark.parametrize("window", [0, 1, 4, 50])
def test_pairs_and_reads_against_a_loop(before: int, new: int, chunk: int, window: int) -> None:
    step = operators._Step(2, before, new, chunk, decoding=False)
    sees = {
        place: range(max(0, place - window) if window else 0, place) for place in range(before + 1, before + new + 1)
    }
    assert step.pairs(window) == 2 * sum(map(len, sees.values()))
    places, size = list(sees), chunk or new
    pieces = [places[start : start + size] for start in range(0, new, size)]
    assert step.read(window) == 2 * sum(len(set().union(*(sees[place] for place in piece))) for piece in pieces)


def test_windowed_layers_have_their_own_operator() -> None:
    arch = named("gpt_oss_120b")
    phase = operators.decode(arch, work(), ONE, 8192)
    full, window = operator(phase, "attention"), operator(phase, "window_attention")
    assert (full.count, window.count) == (18, 18)
    assert window.flops == full.flops * 128 / 8192
    assert window.kv_bytes == full.kv_bytes * (128 + 1) / (8192 + 1)


def test_latent_attention_decodes_in_its_latent() -> None:
    arch = named("deepseek_v3")
    phase = operators.decode(arch, work(), ONE, 4096)
    assert kv(phase) == (4096 + 1) * 70_272
    assert operator(phase, "attention").flops == 61 * 2 * 128 * (2 * 512 + 64) * 4096
    prefill = operators.prefill(arch, work(prompt=1024), ONE)
    assert operator(prefill, "attention").flops == 61 * 2 * 128 * (192 + 128) * 1024 * 1025 / 2
    cached = operators.prefill(arch, work(prompt=1024, prefix_share=0.5), ONE)
    pairs = (1024 * 1025 - 512 * 513) / 2
    expansion = 61 * 2 * 512 * 128 * (128 + 128) * 512
    assert operator(cached, "attention").flops == 61 * 2 * 128 * (192 + 128) * pairs + expansion


def test_a_mixture_reads_the_experts_that_are_hit() -> None:
    arch = named("mixtral_8x7b")
    alone, many = (operators.decode(arch, work(batch), ONE, 100) for batch in (1, 64))
    assert operator(alone, "experts").weight_bytes == pytest.approx(32 * 2 * 176_160_768 * 2)
    assert operator(many, "experts").weight_bytes == pytest.approx(32 * 8 * 176_160_768 * 2, rel=1e-6)
    assert operator(many, "experts").flops == 32 * 64 * 2 * 2 * 176_160_768
    same = operators.decode(arch, work(64, expert_skew=1.0), ONE, 100)
    assert operator(same, "experts").weight_bytes == pytest.approx(operator(alone, "experts").weight_bytes)
    assert operator(alone, "router").flops == 32 * 2 * 4096 * 8


def test_shared_experts_and_dense_layers_stand_apart() -> None:
    phase = operators.decode(named("deepseek_v3"), work(), ONE, 100)
    assert [operator(phase, name).count for name in ("mlp", "router", "experts", "shared_experts")] == [3, 58, 58, 58]
    assert operator(phase, "shared_experts").flops == 58 * 2 * 44_040_192


def test_tensor_parallelism_divides_what_it_can() -> None:
    arch = named("llama3_70b")
    one, eight = (operators.decode(arch, work(), Parallel(tensor), 1000) for tensor in (1, 8))
    for name in ("qkv_proj", "attention", "out_proj", "mlp", "lm_head"):
        assert operator(eight, name).flops == operator(one, name).flops / 8
        assert operator(eight, name).weight_bytes == operator(one, name).weight_bytes / 8
    assert kv(eight) == kv(one) / 8
    assert operator(eight, "norms") == operator(one, "norms")


def test_kv_heads_below_the_degree_and_latents_are_held_by_all() -> None:
    arch = named("llama3_70b")
    assert kv(operators.decode(arch, work(), Parallel(16), 1000)) == kv(
        operators.decode(arch, work(), Parallel(8), 1000)
    )
    latent = named("deepseek_v3")
    assert kv(operators.decode(latent, work(), Parallel(8), 1000)) == kv(operators.decode(latent, work(), ONE, 1000))


def test_all_reduces_of_a_70b_step() -> None:
    """160 of 16 KiB a token; of a ring's two a GPU sends as much, of eight 2·7/8 of it."""
    arch = named("llama3_70b")
    two, eight = (operator(operators.decode(arch, work(), Parallel(n), 1000), "all_reduce") for n in (2, 8))
    assert (two.count, two.link_bytes) == (160, 160 * 16 * 1024)
    assert eight.link_bytes == 160 * 16 * 1024 * 2 * 7 / 8
    assert "all_reduce" not in names(operators.decode(arch, work(), ONE, 1000))


def test_experts_apart_read_their_share_and_cost_an_exchange() -> None:
    arch = named("mixtral_8x7b")
    cut, apart = (operators.decode(arch, work(8), Parallel(4, 1, expert), 100) for expert in (1, 4))
    assert operator(apart, "experts").weight_bytes == pytest.approx(operator(cut, "experts").weight_bytes)
    assert operator(apart, "experts").flops == operator(cut, "experts").flops
    sent = operator(apart, "all_to_all")
    assert (sent.count, sent.link_bytes) == (64, 32 * 2 * (8 / 4) * 2 * 4096 * 2 * 3 / 4)
    assert "all_to_all" not in names(cut)


def test_a_pipeline_passes_the_residual_on() -> None:
    arch = named("llama3_8b")
    whole, staged = (operators.decode(arch, work(4), Parallel(1, stages), 100) for stages in (1, 4))
    assert operator(staged, "stage_send").link_bytes == 3 * 4 * 4096 * 2
    assert staged.flops == whole.flops


def test_a_verification_shares_the_weights_and_the_cache() -> None:
    arch = named("llama3_8b")
    plain, drafted = (operators.decode(arch, work(2, speculative=g), ONE, 1000) for g in (0, 3))
    assert weights(drafted) == weights(plain)
    assert operator(drafted, "mlp").flops == 4 * operator(plain, "mlp").flops
    assert operator(drafted, "lm_head").flops == 4 * operator(plain, "lm_head").flops
    assert kv(drafted) == 2 * (1003 + 4) * 131_072
    assert operator(drafted, "attention").flops == 2 * 4 * 32 * 4096 * (1000 + 1001 + 1002 + 1003)


def test_biases_and_norms_are_stored_as_the_rest() -> None:
    arch = named("gpt2_small")
    four = replace(work(), weights=precision.of("int4_g128"))
    phase = operators.decode(arch, four, ONE, 100)
    matrices = 12 * (4 * 768 * 768 + 2 * 768 * 3072)
    rest = 123_653_376 - matrices
    assert weights(phase) == pytest.approx(matrices * 4.125 / 8 + 2 * rest)


def test_heads_that_cannot_be_shared_are_refused() -> None:
    with pytest.raises(PlanError, match=r"tensor=3.*must divide the 32 heads"):
        operators.decode(named("llama3_8b"), work(), Parallel(3), 100)


def test_a_head_of_its_own_precision_is_read_so() -> None:
    bf16 = precision.of("bfloat16")
    work = Work(1, 4, 4, bf16, bf16, bf16, head=precision.of("w8a16"))
    heads = {one.name: one.weight_bytes for one in operators.decode(of(tiny()), work, Parallel(), 4).operators}
    assert heads["lm_head"] == 80 * 8.25 / 8
    assert heads["mlp"] == 2 * 3 * 8 * 16 * 2
