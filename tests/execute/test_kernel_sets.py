"""Which measured kernels belong to a load."""

from __future__ import annotations

from typing import Any

import pytest

from runner.estimate.kernels import Kernels
from runner.execute.kernel_sets import FAMILY, Found, Wanted, chosen
from runner.result.model import INTERRUPTED, Quality, Result, Status

LETTERS = {"B": "1", "layers": "24", "h": "896", "weights": "bf16", "kv": "fp32"}
TIMES = {
    "decode_attention": {"time_us": 10.0, "calls": 24},
    "decode_logits": {"time_us": 80.0, "calls": 1},
    "prefill_qkv": {"time_us": 50.0, "calls": 24},
    "empty": {"time_us": 2.0, "calls": 0},
    "chain": {"time_us": 96.0, "nodes": 64, "calls": 0},
}


def experiment(name: str, context: int = 100, prompt: int = 64, **more: Any) -> list[Found]:
    """One of every variant; ``more`` replaces fields of the results."""
    params = {**LETTERS, "B": 1, "L": 1, "context": context, "prompt": prompt}
    params |= more.pop("params", {})
    fields = {"gpu": "h200_sxm", "backend": "cuda", "quality": Quality.OK, "experiment_id": name, **more}
    return [
        Found(
            f"run {name}-{variant}",
            Result(name, FAMILY, variant, Status.PASSED, params=params, metrics=dict(metrics), **fields),
        )
        for variant, metrics in TIMES.items()
    ]


def wanted(context: float = 100.0, letters: dict[str, str] | None = None) -> Wanted:
    return Wanted("h200_sxm", "cuda", {**LETTERS, **(letters or {})}, 64, context, TIMES)


def kernels(found: list[Found], needed: Wanted) -> Kernels:
    made = chosen(found, needed, "a store")
    assert isinstance(made, Kernels), made
    return made


def missing(found: list[Found], needed: Wanted) -> str:
    said = chosen(found, needed, "a store")
    assert isinstance(said, str)
    return said


def test_the_newest_experiment_that_is_whole_counts() -> None:
    newest = experiment("c")
    newest[0].result.status = Status.INCORRECT
    interrupted = experiment("b")
    interrupted[1].result.status, interrupted[1].result.message = Status.SKIPPED, INTERRUPTED
    partly = [one for one in experiment("p") if one.result.variant != "decode_logits"]
    made = kernels([*newest, *interrupted, *partly, *experiment("a"), *experiment("o")], wanted())
    assert [one.source for one in made.decode] == ["run a-decode_attention", "run a-decode_logits"]
    assert made.prefill[0].source == "run c-prefill_qkv", "a phase does not need the other"
    assert made.tpot_s == pytest.approx((24 * 9.5 + 79.5) * 1e-6)


def test_what_a_first_token_lacks_is_said() -> None:
    notes = kernels(experiment("a"), wanted()).notes
    assert "the choice of the first token is without decode_sampler, which was not measured" in notes


def test_what_the_family_left_out_does_not_count() -> None:
    found = experiment("a")
    found[0].result.status, found[0].result.message = Status.SKIPPED, "needs bf16"
    assert [one.operator for one in kernels(found, wanted()).decode] == ["decode_logits"]


@pytest.mark.parametrize(
    ("changed", "needed"),
    [
        ({"gpu": "h100_sxm"}, {}),
        ({"gpu": "host", "backend": "host"}, {}),
        ({"params": {"weights": "fp32"}}, {}),
        ({"overrides": ["sanitize=true"]}, {}),
        ({}, {"h": "1024"}),
        ({}, {"group": "128"}),
    ],
)
def test_another_device_or_figure_is_no_match(changed: dict[str, Any], needed: dict[str, str]) -> None:
    said = missing(experiment("a", **changed), wanted(letters=needed))
    assert said.startswith(f"no result of kernel={FAMILY} for B=1 layers=24 h=")
    assert said.endswith("prompt=64 context=100 on h200_sxm")


def test_a_context_between_two_is_interpolated_and_said_so() -> None:
    low, high = experiment("a", 80), experiment("b", 120)
    high[0].result.metrics["time_us"] = 30.0
    made = kernels([*low, *high], wanted())
    assert made.decode[0].time_us == 20.0
    assert "a step at 100 tokens is interpolated between those measured at 80 and 120" in made.notes
    assert kernels(low, wanted(80.5)).notes[0] == "a step is measured at 80 tokens, of 80.5"
    assert "there are contexts of 80" in missing(low, wanted())


def test_calls_that_were_measured_together_share_what_starting_costs() -> None:
    found = experiment("a")
    found[0].result.metrics |= {"nodes": 4, "time_us": 40.0, "call_us": 10.0}
    made = kernels(found, wanted())
    assert [one.nodes for one in made.decode] == [4, 0]
    assert made.tpot_s == pytest.approx((24 * (10 - 0.5 / 4) + 79.5) * 1e-6)


def test_a_prefill_is_of_the_prompt_itself() -> None:
    assert missing(experiment("a", prompt=32), wanted()).endswith("; there are prompts of 32")
    apart = kernels([*experiment("a", prompt=32), *experiment("b", 500)], wanted())
    assert (apart.decode[0].source, apart.prefill[0].source) == ("run a-decode_attention", "run b-prefill_qkv")


def test_a_step_without_a_context_of_its_own_stands_behind_the_prompt() -> None:
    assert kernels(experiment("a", context=0), wanted(65)).decode[0].time_us == 10.0
    assert "there are contexts of 65" in missing(experiment("a", context=0), wanted(100))


def test_what_a_launch_costs_comes_from_the_experiment_itself_else_from_the_newest() -> None:
    other = experiment("b", 500)
    other[3].result.metrics["time_us"] = 7.0
    own = kernels([*other, *experiment("a")], wanted()).launch
    assert own is not None
    assert (own.empty_us, own.node_us, own.source) == (2.0, 1.5, "run a-empty and run a-chain")
    borrowed = kernels([*other, *experiment("a")[:3]], wanted()).launch
    assert borrowed is not None
    assert (borrowed.empty_us, borrowed.source) == (7.0, "run b-empty and run b-chain")


@pytest.mark.parametrize("lacking", ["empty", "chain"])
def test_without_both_figures_of_a_launch_times_stay_as_they_are(lacking: str) -> None:
    found = experiment("a")
    one = next(one for one in found if one.result.variant == lacking)
    one.result.status = Status.INCORRECT
    made = kernels(found, wanted())
    assert made.launch is None and made.tpot_s == pytest.approx((240 + 80) * 1e-6)
    assert any("the variants empty and chain of kernel=layer_ops" in note for note in made.notes)


def test_a_chain_without_its_length_is_not_taken() -> None:
    found = experiment("a")
    del found[4].result.metrics["nodes"]
    assert kernels(found, wanted()).launch is None


def test_doubtful_times_are_said() -> None:
    made = kernels(experiment("a", quality=Quality.THROTTLED), wanted())
    assert "measured times are THROTTLED: decode_attention, decode_logits, prefill_qkv" in made.notes


def test_a_result_without_calls_is_not_taken() -> None:
    found = experiment("a")
    del found[1].result.metrics["calls"]
    assert "decode_logits has no time_us or no calls" in missing(found, wanted())
