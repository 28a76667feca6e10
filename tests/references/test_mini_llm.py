"""The reference against a decoder written apart from it, and which choices of a device it takes for right."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from runner.check import generator
from runner.check.case import Case
from runner.plan.model import Check
from runner.references import mini_llm
from runner.references.mini_llm import allowed, drawn, expected, inputs, judged
from tests.kernels.plans import HOST, plan
from tests.references.cases import case, check, rows
from tests.references.decoder import CACHES, Decoder, Vector, quantised, written

SMALL: dict[str, Any] = {
    **{"B": 2, "L": 2, "h": 24, "H": 4, "KVH": 2, "D": 6, "I": 40, "V": 97, "prompt": 5, "steps": 3, "theta": 100.0},
    **{"bias": True, "tied": False, "weights": "fp32", "kv": "fp32"},
}
PROJECTIONS = ("qkv_weight", "out_weight", "gate_up_weight", "down_weight")
LEVELS = {"w8a16": 127, "w4a16": 7}
CONFIGURATIONS: list[dict[str, Any]] = [
    {},
    {"weights": "bf16", "kv": "bf16", "bias": False, "tied": True, "page": 3},
    # Depths of 136, 24 and 264: a whole group and a rest, less than one, more than one of 256.
    {"weights": "w8a16", "kv": "int8", "h": 136, "I": 264, "KVH": 1, "L": 1},
    {"weights": "w4a16", "kv": "fp8", "h": 136, "I": 264, "KVH": 4, "L": 1, "group": 256, "page": 2},
    {"positions": 9, "KVH": 4},
    {"positions": 8, "weights": "w8a16", "kv": "int8", "tied": True},
]
GPT2 = ("position_embedding", "out_bias", "up_bias", "down_bias")


def named(changes: dict[str, Any]) -> str:
    return "gpt2_" * ("positions" in changes) + str(changes.get("weights", "fp32"))


def made(**changes: Any) -> Case:
    return Case(plan("mini_llm", {**SMALL, **changes}, HOST))


def decoder(some: Case) -> Decoder:
    """The experiment's decoder on its weights as the device computes with them."""
    weights: dict[str, Any] = {name: some.input(name) for name in ("attention_norm", "mlp_norm", "last_norm")}
    weights["embedding"] = some.input("embedding")
    for name in PROJECTIONS:
        layers = some.input(name)
        levels = LEVELS.get(some["weights"])
        weights[name] = np.stack([quantised(each, levels, some["group"]) for each in layers]) if levels else layers
    if some["has_bias"]:
        weights["qkv_bias"] = some.input("qkv_bias")
    if some["gpt2"]:
        weights |= {name: some.input(name) for name in GPT2}
    if not some["is_tied"]:
        weights["lm_head"] = some.input("lm_head")
    sizes = (some["L"], some["H"], some["KVH"], some["D"], some["theta"], some["eps"])
    return Decoder(weights, *sizes, stored=CACHES[some["kv"]])


def greedy(some: Case) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Free running: tokens (B, steps + 1), and the logits of each."""
    texts = [written(decoder(some), list(prompt), some["steps"] + 1) for prompt in some.input("prompt_ids")]
    return np.array([text for text, _ in texts]), np.array([logits for _, logits in texts])


@pytest.mark.parametrize("changes", CONFIGURATIONS, ids=named)
def test_the_greedy_text_is_judged_right_with_its_own_logits(changes: dict[str, Any]) -> None:
    some = made(**changes)
    tokens, logits = greedy(some)
    run = judged(some, tokens)
    np.testing.assert_array_equal(run.tokens, tokens)
    np.testing.assert_allclose(run.logits, logits, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("weights", "kv"), [("w8a16", "fp32"), ("w4a16", "fp32"), ("bf16", "int8"), ("bf16", "fp8")])
def test_how_things_are_stored_shows_in_the_logits(weights: str, kv: str) -> None:
    """So that a reference that forgot to round would not have passed the test above."""
    narrow, plain = made(weights=weights, kv=kv), made(weights="bf16")
    tokens, _ = greedy(plain)
    assert np.abs(judged(narrow, tokens).logits - judged(plain, tokens).logits).max() > 1e-3


def test_after_a_wrong_token_the_text_goes_on_as_the_device_wrote_it() -> None:
    some = made()
    tokens, logits = greedy(some)
    wrong = tokens.copy()
    wrong[1, 1] = int(np.argmin(logits[1, 1]))
    one = decoder(some)
    seen = [one.next_logits(token) for token in [*some.input("prompt_ids")[1], *wrong[1]]]
    wrong[1, 2] = int(np.argmax(seen[some["prompt"] + 1]))  # right behind the wrong one
    run = judged(some, wrong)
    assert run.tokens[1, 1] == tokens[1, 1] != wrong[1, 1]
    assert run.tokens[1, 2] == wrong[1, 2]
    np.testing.assert_array_equal(run.tokens[0], tokens[0])
    np.testing.assert_allclose(run.logits[1, 2], seen[some["prompt"] + 1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("nothing", [-1, 97, 2**31 - 1])
def test_what_is_no_token_is_never_right(nothing: int) -> None:
    some = made(B=1)
    tokens, _ = greedy(some)
    broken = tokens.copy()
    broken[0, 0] = nothing
    run = judged(some, broken)
    assert run.tokens[0, 0] == tokens[0, 0]
    assert run.tokens.min() >= 0 and run.tokens.max() < some["V"]


def choice(logits: list[list[float]], chosen: list[int], **symbols: Any) -> list[int]:
    some = case({"top_k": 0, "V": len(logits[0]), "tie": 0.25, "prompt": 1, **symbols})
    found: list[int] = allowed(some, np.array(logits), np.array(chosen)[:, None], 0).tolist()
    return found


def test_of_two_logits_within_the_tie_either_is_right() -> None:
    logits = [[0.0, 1.0, 0.75, 0.5]]
    assert [choice(logits, [token])[0] for token in range(4)] == [1, 1, 2, 1]
    assert choice([[0.0, 1.0], [1.0, 0.9]], [1, 1]) == [1, 1], "each sequence by its own logits"
    assert choice([[1.0, 0.5, 1.0]], [-1]) == [0], "the lowest of equals, and -1 is not 0"


def of(name: str, output: str) -> Check:
    return replace(check(name), output=output)


def test_rows_of_a_check() -> None:
    some = made()
    tokens, logits = greedy(some)
    left = tokens.copy()
    left[1, 0] = -1
    some.left(lambda name, start, count: left.reshape(-1).astype(np.int32)[start : start + count])
    eager = of("eager_tokens", "tokens")
    wanted = judged(some, left).tokens
    np.testing.assert_array_equal(expected(some, eager, rows(0, 4, 5)), wanted.reshape(-1)[[0, 4, 5]])
    found = expected(some, of("eager_logits", "logits"), rows(0))
    np.testing.assert_allclose(found, logits[:1, -1], rtol=1e-9, atol=1e-9)


def test_a_prefill_answers_for_the_first_token_alone() -> None:
    some = made()
    tokens, logits = greedy(some)
    left = np.full_like(tokens, -1)
    left[:, 0] = tokens[:, 0]
    some.left(lambda name, start, count: left.reshape(-1).astype(np.int32)[start : start + count])
    found = expected(some, of("prefill_tokens", "tokens"), np.arange(left.size))
    np.testing.assert_array_equal(found, left.reshape(-1))
    found = expected(some, of("prefill_logits", "logits"), rows(1))
    np.testing.assert_allclose(found, logits[1:, 0], rtol=1e-9, atol=1e-9)


def test_variants_that_wrote_the_same_share_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    some = made()
    passes = []
    forward = mini_llm.forward

    def counted(case: Case, ids: npt.NDArray[np.int64], last: int) -> npt.NDArray[np.float64]:
        passes.append(ids.shape)
        return forward(case, ids, last)

    monkeypatch.setattr(mini_llm, "forward", counted)
    tokens, _ = greedy(some)
    first = judged(some, tokens)
    again, beginning = judged(some, tokens.copy()), judged(some, tokens[:, :1])
    assert passes == [(2, 5 + 3)], "the beginning of a text that is right is right already"
    np.testing.assert_array_equal(again.logits, first.logits)
    np.testing.assert_array_equal(beginning.logits, first.logits[:, :1])
    wrong = (tokens + 1) % some["V"]
    assert not np.array_equal(judged(some, wrong).tokens, wrong) and len(passes) == 2


# ---- drawn tokens

DRAWS = {"top_k": 8, "top_p": 0.9, "temperature": 0.7, "tie": 0.0, "prompt": 1}


def by_hand(logits: Vector, sequence: int, position: int, seed: int, top_k: int, top_p: float, heat: float) -> int:
    """The definition, in Python's own numbers."""
    order = sorted(range(len(logits)), key=lambda i: (-logits[i], i))[:top_k]
    masses = [math.exp((logits[i] - logits[order[0]]) / heat) for i in order]
    kept, mass = 0, 0.0
    while kept < len(order) and (kept == 0 or mass < top_p * sum(masses)):
        mass += masses[kept]
        kept += 1
    key = (generator.key(seed, "sampler") + sequence) % 2**64
    aim, reached = float(generator.uniform(key, position, 1, 0.0, 1.0)[0]) * mass, 0.0
    for i, weight in zip(order[:kept], masses, strict=False):
        reached += weight
        if aim < reached:
            return i
    return order[kept - 1]


@pytest.mark.parametrize(
    ("top_k", "top_p", "temperature"),
    [(8, 0.9, 0.7), (1, 1.0, 1.0), (97, 1.0, 1.0), (1000, 0.5, 2.0), (40, 1e-6, 1.0), (5, 0.99, 0.01), (3, 0.6, 100.0)],
)
def test_draws_follow_the_definition(top_k: int, top_p: float, temperature: float) -> None:
    some = case({"top_k": top_k, "top_p": top_p, "temperature": temperature, "tie": 0.0})
    random = np.random.default_rng(3)
    found = set()
    for position in range(200):
        logits = random.normal(size=97)
        token = drawn(some, logits, position % 3, -1, position)
        assert token == by_hand(logits, position % 3, position, some.seed, top_k, top_p, temperature)
        found.add(int(np.sum(logits > logits[token])))  # its rank
    assert (max(found) > 0) == (top_k > 1 and top_p > 1e-3)
    assert max(found) < top_k


def test_draws_are_as_frequent_as_they_are_probable() -> None:
    some = case({"top_k": 3, "top_p": 1.0, "temperature": 1.0, "tie": 0.0})
    logits = np.log([0.1, 0.6, 0.05, 0.3])
    counts = Counter(drawn(some, logits, 1, -1, position) for position in range(4000))
    assert counts[2] == 0, "not among the three largest"
    assert [counts[token] / 4000 for token in (1, 3, 0)] == pytest.approx([0.6, 0.3, 0.1], abs=0.025)


def test_a_draw_at_the_edge_of_two_tokens_may_fall_either_way() -> None:
    logits = np.zeros(2)
    key = generator.key(0, "sampler")
    numbers = generator.uniform(key, 0, 4000, 0.0, 1.0)
    near = int(np.argmin(np.abs(numbers - 0.5)))
    far = int(np.argmin(np.abs(numbers - 0.9)))
    off = abs(float(numbers[near]) - 0.5)
    right, other = (0, 1) if numbers[near] < 0.5 else (1, 0)
    exact, loose = ({"top_k": 2, "top_p": 1.0, "temperature": 1.0, "tie": tie} for tie in (0.0, off))
    assert drawn(case(exact), logits, 0, other, near) == right
    assert drawn(case(loose), logits, 0, other, near) == other
    assert drawn(case(loose), logits, 0, 0, far) == 1
    assert drawn(case(loose), logits, 0, -1, near) == right


def test_a_token_that_was_cut_off_is_never_drawn() -> None:
    logits = np.array([3.0, 2.0, 1.0, 0.0])
    some = case({"top_k": 2, "top_p": 1.0, "temperature": 1.0, "tie": 1e-3})
    for position in range(50):
        assert drawn(some, logits, 0, 2, position) in (0, 1)
    assert choice([[3.0, 2.0, 1.0]], [2], **{**DRAWS, "top_k": 1}) == [0]


# ---- tables


def test_tables_of_the_prompts() -> None:
    some = made(B=3, prompt=150, D=128, H=2, KVH=1, page=16)
    slot, position, last = (inputs(some, f"prompt_{name}") for name in ("slot", "position", "last"))
    assert [(int(slot[t]), int(position[t])) for t in (0, 149, 150, 449)] == [(0, 0), (0, 149), (1, 0), (2, 149)]
    assert last.tolist() == [149, 299, 449]
    runs = inputs(some, "prompt_runs").tolist()
    assert some["run_tokens"] == 32 and len(runs) == 3 * some["prompt_run_count"]
    assert [t for first, count in runs for t in range(first, first + count)] == list(range(450))
    assert all(count <= 32 and slot[first] == slot[first + count - 1] for first, count in runs)


def test_the_pages_of_all_sequences_are_a_pool_in_disorder() -> None:
    some = made(B=3, page=2)
    table = inputs(some, "table")
    assert table.shape == (3, 4) and some["pages"] == 12
    assert sorted(table.ravel().tolist()) == list(range(12)) != table.ravel().tolist()
    assert made(B=3)["pages"] == 3, "without pages a sequence is one"
