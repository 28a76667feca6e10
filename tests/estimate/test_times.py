"""Times against published rooflines and cases by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from runner.estimate import operators, precision, times
from runner.estimate.model import Efficiency, Machine, Operator, Parallel, Phase, Work
from runner.plan.errors import PlanError
from tests.estimate.machines import gpu
from tests.estimate.models import named

BF16 = precision.of("bfloat16")
FP8 = precision.of("float8")
IDEAL = Efficiency()
ONE = Parallel()


def work(batch: int = 1, prompt: int = 1024, output: int = 256, **more: Any) -> Work:
    return replace(Work(batch, prompt, output, BF16, BF16, BF16), **more)


def at(context: int, batch: int = 1) -> Work:
    """Decoding with ``context`` tokens in every step."""
    return work(batch, context - 1, 1)


@pytest.mark.parametrize(("name", "ms"), [("h200_sxm", 3.351), ("a100_80_sxm", 7.888)])
def test_a_step_of_llama_3_8b_at_8192_tokens(name: str, ms: float) -> None:
    step = times.step_s(named("llama3_8b"), at(8192), ONE, gpu(name), IDEAL)
    assert 1e3 * step == pytest.approx(ms, rel=2e-3)


def test_llama_2_7b_on_an_a100_by_its_weights() -> None:
    assert 1e3 * times.step_s(named("llama2_7b"), at(1), ONE, gpu("a100_80_sxm"), IDEAL) == pytest.approx(
        6.481, rel=2e-3
    )


def test_14_gb_over_2039_gb_a_second_are_146_tokens_a_second() -> None:
    one = Operator("mlp", 1, 0.0, 14e9, 0.0, 0.0, "float16")
    assert 1 / times.operator_s(one, gpu("a100_80_sxm"), IDEAL) == pytest.approx(146, abs=0.5)


def test_batch_32_at_768_tokens_is_bounded_near_3600_tokens_a_second() -> None:
    step = times.step_s(named("llama3_8b"), at(768, 32), ONE, gpu("a100_80_sxm"), IDEAL)
    assert 32 / step == pytest.approx(3600, rel=0.02)


@pytest.mark.parametrize(
    ("name", "tensor", "ms"),
    [
        ("h200_sxm", 1, 14.91),
        ("h200_sxm", 2, 7.45),
        ("h200_sxm", 4, 3.73),
        ("h200_sxm", 8, 1.86),
        ("h100_sxm", 2, 10.68),
        ("h100_sxm", 4, 5.34),
        ("h100_sxm", 8, 2.67),
    ],
)
def test_the_roofline_of_a_70b_in_8_bits(name: str, tensor: int, ms: float) -> None:
    """Of weights and cache alone; activations and the link come on top, which shows at 8 GPUs."""
    eight = replace(work(4, 1024, 1024), weights=FP8, kv=FP8)
    phase = operators.decode(named("llama3_70b"), eight, Parallel(tensor), 1536)
    floor = sum(one.weight_bytes + one.kv_bytes for one in phase.operators) / (gpu(name).bandwidth_gbps * 1e9)
    assert 1e3 * floor == pytest.approx(ms, rel=3e-3)
    step = times.phase_s(phase, named("llama3_70b"), eight, Parallel(tensor), gpu(name), IDEAL)
    assert floor < step < 1.04 * floor


@pytest.mark.parametrize(
    ("name", "plain", "four"),
    [("h100_sxm", 295, 76), ("h200_sxm", 206, 53), ("a100_80_sxm", 153, 39), ("b200", 281, 73), ("rtx_4090", 164, 42)],
)
def test_ridge_batches(name: str, plain: int, four: int) -> None:
    assert times.ridge_batch(gpu(name), BF16) == pytest.approx(plain, abs=0.51)
    assert times.ridge_batch(gpu(name), precision.of("int4_g128")) == pytest.approx(four, abs=0.51)


def test_a_linear_layer_turns_at_the_ridge_batch() -> None:
    machine, weights = gpu("h200_sxm"), 1e9
    for batch, bound in ((205, "memory"), (207, "compute")):
        one = Operator("mlp", 1, 2 * weights * batch, 2 * weights, 0.0, 0.0, "bfloat16")
        assert times.operator_bound(one, machine, IDEAL) == bound


@pytest.mark.parametrize(("bits", "bound"), [("int4_g128", 3.879), ("int4_g128_s32", 3.7647)])
def test_four_bits_are_bounded_by_their_scales(bits: str, bound: float) -> None:
    arch, machine = named("llama3_8b"), gpu("h200_sxm")
    phases = [
        operators.decode(arch, replace(work(), weights=weights), ONE, 1) for weights in (BF16, precision.of(bits))
    ]
    taken = [sum(one.weight_bytes for one in phase.operators if one.name in ("mlp", "out_proj")) for phase in phases]
    assert taken[0] / taken[1] == pytest.approx(bound, rel=1e-3)
    steps = [times.phase_s(phase, arch, work(), ONE, machine, IDEAL) for phase in phases]
    assert 2.5 < steps[0] / steps[1] < bound


@pytest.mark.parametrize(("drafted", "acceptance", "tokens"), [(3, 0.7, 2.533), (4, 0.8, 3.362), (5, 0.9, 4.686)])
def test_tokens_of_a_verification(drafted: int, acceptance: float, tokens: float) -> None:
    assert times.tokens_per_verification(drafted, acceptance) == pytest.approx(tokens, abs=5e-4)


def test_ends_of_speculation() -> None:
    assert times.tokens_per_verification(0, 0.7) == 1
    assert times.tokens_per_verification(4, 0.0) == 1
    assert times.tokens_per_verification(4, 1.0) == 5


def test_speculation_divides_a_step_that_hardly_grows() -> None:
    arch, machine = named("llama3_70b"), gpu("h200_sxm")
    plain = times.tpot_s(arch, work(), ONE, machine, IDEAL)
    drafted = times.tpot_s(arch, work(speculative=4, acceptance=0.8), ONE, machine, IDEAL)
    assert plain / drafted == pytest.approx(3.362, rel=5e-3)


def test_fixed_times() -> None:
    arch, machine = named("llama3_8b"), gpu("h200_sxm")
    slow = Efficiency("model", "a test", layer_us=50, all_reduce_us=4, sequence_us=10, request_us=1000)
    chunked = work(2, 1000, chunk=500)
    for parallel, layer in ((ONE, 50), (Parallel(2), 58)):
        for count, phase in (
            (4, operators.prefill(arch, chunked, parallel)),
            (1, operators.decode(arch, work(2), parallel, 9)),
        ):
            parts = times.parts_s(phase, arch, chunked, parallel, machine, slow)
            assert parts["overhead"] == pytest.approx(1e-6 * (count * 32 * layer + 2 * 10))
            ideal = times.phase_s(phase, arch, chunked, parallel, machine, IDEAL)
            assert sum(parts.values()) == pytest.approx(ideal + parts["overhead"])
    waited = times.ttft_s(arch, chunked, ONE, machine, slow) - times.ttft_s(arch, chunked, ONE, machine, IDEAL)
    assert waited == pytest.approx(1e-6 * (1000 + 4 * 32 * 50 + 2 * 10))


def test_shares_of_the_rates() -> None:
    machine = gpu("h200_sxm")
    half = Efficiency("model", "a test", bandwidth=0.5, compute=0.25)
    read = Operator("mlp", 1, 1.0, 4.8e9, 0.0, 0.0, "bfloat16")
    multiply = Operator("mlp", 1, 989e9, 1.0, 0.0, 0.0, "bfloat16")
    assert times.operator_s(read, machine, half) == pytest.approx(2e-3)
    assert times.operator_s(multiply, machine, half) == pytest.approx(4e-3)


def test_what_bounds_a_phase() -> None:
    arch, machine = named("llama3_8b"), gpu("h200_sxm")

    def bound(phase: Phase, efficiency: Efficiency = IDEAL) -> str:
        return times.bound(times.parts_s(phase, arch, work(), ONE, machine, efficiency))

    assert bound(operators.prefill(arch, work(prompt=4096), ONE)) == "compute"
    assert bound(operators.decode(arch, work(), ONE, 1000)) == "memory"
    assert bound(operators.decode(arch, work(), ONE, 1000), Efficiency("model", "", layer_us=200)) == "overhead"
    assert times.operator_bound(Operator("norms", 1, 0.0, 0.0, 0.0, 0.0, "bfloat16"), machine, IDEAL) == ""


@pytest.mark.parametrize(("name", "rate"), [("h200_sxm", 450e9), ("rtx_4090", 16 * 1.969e9), ("host", 0.0)])
def test_links(name: str, rate: float) -> None:
    machine = gpu(name) if name != "host" else Machine("host", 100, 10**10, {"float32": 1})
    assert times.link_rate(machine) == pytest.approx(rate)
    sent = Operator("all_reduce", 1, 0.0, 0.0, 0.0, 0.0, "float32", link_bytes=1e9)
    assert times.operator_s(sent, machine, IDEAL) == pytest.approx(1e9 / rate if rate else 0.0)


def test_a_gpu_without_a_type_computes_in_a_wider_one() -> None:
    assert times.arithmetic(gpu("a100_80_sxm"), "float8") == "bfloat16"
    assert times.arithmetic(gpu("t4"), "bfloat16") == "float32"
    assert times.arithmetic(gpu("h200_sxm"), "float8") == "float8"
    assert times.peak(gpu("t4"), "float4") == 65e12
    with pytest.raises(PlanError, match=r"gpu\.tflops\.int8"):
        times.peak(Machine("nothing", 100, 10**9, {}), "int8")


def test_the_average_context_of_a_generation() -> None:
    arch, machine = named("llama3_8b"), gpu("h200_sxm")
    each = [times.step_s(arch, at(1024 + k), ONE, machine, IDEAL) for k in range(1, 65)]
    assert times.step_s(arch, work(output=64), ONE, machine, IDEAL) == pytest.approx(sum(each) / 64)
