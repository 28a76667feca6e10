"""Times of a prefill and of a step out of measured kernels."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runner.estimate import precision
from runner.estimate.estimate import estimate
from runner.estimate.kernels import Kernels, Launch, Timing, between, called_us, combined, sequence_us
from runner.estimate.model import Efficiency, Parallel, Work
from tests.estimate.machines import gpu
from tests.estimate.models import named

STEP = (
    Timing("decode_embed", 3.0, 1, "run a"),
    Timing("decode_qkv", 10.0, 24, "run b"),
    Timing("decode_logits", 80.0, 1, "run c"),
    Timing("decode_sampler", 6.0, 1, "run d"),
)
PREFILL = (Timing("prefill_qkv", 50.0, 24, "run e"), Timing("prefill_norm", 5.0, 48, "run f"))
LAUNCH = Launch(empty_us=2.5, node_us=1.5, source="run g and run h")


def test_a_step_is_the_sum_of_its_calls() -> None:
    assert sequence_us(STEP, None) == 3 + 240 + 80 + 6
    assert combined(PREFILL, STEP, "here").tpot_s == pytest.approx(329e-6)


def test_a_prefill_ends_with_the_choice_of_the_first_token() -> None:
    made = combined(PREFILL, STEP, "here")
    assert [one.operator for one in made.prefill] == ["prefill_qkv", "prefill_norm", "decode_logits", "decode_sampler"]
    assert made.ttft_s == pytest.approx((1200 + 240 + 80 + 6) * 1e-6)


def test_in_a_graph_a_node_takes_the_place_of_what_an_empty_kernel_costs() -> None:
    assert called_us(STEP[1], LAUNCH) == pytest.approx(24 * (10 - 2.5 + 1.5))
    together = replace(STEP[1], nodes=4)
    assert called_us(together, LAUNCH) == pytest.approx(24 * (10 - (2.5 - 1.5) / 4)), "four share what starting costs"
    assert called_us(replace(together, time_us=1.0), LAUNCH) == pytest.approx(24 * 1.5)
    assert called_us(STEP[1], Launch(1.0, 1.5, "x")) == 240, "a node that costs more than a launch takes nothing off"
    assert called_us(Timing("decode_norm", 2.0, 4, "x"), LAUNCH) == pytest.approx(4 * 1.5), "never less than nothing"
    assert called_us(STEP[1], None) == 240


def test_every_source_is_named_once() -> None:
    made = combined(PREFILL, STEP, "kernel=layer_ops in store", LAUNCH)
    assert made.source == "kernel=layer_ops in store: run e, run f, run c, run d, run a, run b, run g and run h"


def test_a_context_between_two_lies_on_their_line() -> None:
    low = (Timing("decode_attention", 10.0, 24, "run a"), Timing("decode_qkv", 8.0, 24, "run b"))
    high = (Timing("decode_attention", 30.0, 24, "run c"), Timing("decode_qkv", 8.0, 24, "run d"))
    attention, qkv = between(150.0, {200: high, 100: low})
    assert (attention.time_us, attention.calls, attention.source) == (20.0, 24, "run a and run c")
    assert qkv.time_us == 8.0
    with pytest.raises(ValueError, match="the steps at 100 and 200 tokens do not have the same operators"):
        between(150.0, {100: low, 200: high[:1]})


def made_of(kernels: Kernels | None) -> dict[str, float]:
    bf16 = precision.of("bfloat16")
    work = Work(2, 100, 28, bf16, bf16, bf16)
    level = Efficiency(level="measured", source="here") if kernels else Efficiency()
    made = estimate(named("qwen2_5_0_5b"), work, Parallel(), gpu("h200_sxm"), level, 0, 0.9, kernels)
    assert made.on_paper == Efficiency()
    return made.metrics


def test_an_estimate_takes_its_times_from_them_and_nothing_else() -> None:
    kernels = combined(PREFILL, STEP, "here")
    measured, ideal = made_of(kernels), made_of(None)
    assert measured["tpot_ms"] == pytest.approx(0.329)
    assert measured["ttft_ms"] == pytest.approx(1.526)
    assert measured["request_ms"] == pytest.approx(1.526 + 27 * 0.329)
    assert measured["tokens_per_s"] == pytest.approx(2 / 329e-6)
    assert set(ideal) - set(measured) == {"served_ttft_ms", "served_tpot_ms", "served_waiting_ms"}
    for name in ("bytes_decode_step", "weight_bytes", "ridge_batch"):
        assert measured[name] == ideal[name]


def test_a_machine_without_a_datasheet_has_no_ridge_and_no_bound() -> None:
    bf16 = precision.of("bfloat16")
    cpu = replace(gpu("h200_sxm"), name="host", bandwidth_gbps=0.0, tflops={})
    kernels = combined(PREFILL, STEP, "here", notes=["one"])
    level = Efficiency(level="measured", source="here")
    work = Work(1, 100, 28, bf16, bf16, bf16)
    made = estimate(named("qwen2_5_0_5b"), work, Parallel(), cpu, level, 0, 0.9, kernels)
    assert set(made.labels) == {"level", "kernels_from"}
    assert made.notes[0] == "one" and "ridge_batch" not in made.metrics
