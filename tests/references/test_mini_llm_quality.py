"""What formats cost, against the plain definitions over whole arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from runner.check.case import Case
from runner.references import mini_llm, mini_llm_quality
from runner.references.mini_llm_quality import next_ids, unquantised
from tests.kernels.plans import HOST, plan

SMALL: dict[str, Any] = {
    **{"B": 2, "L": 1, "h": 24, "H": 2, "KVH": 1, "D": 8, "I": 40, "V": 31, "prompt": 6, "bias": False, "tied": True},
}


def case(**params: Any) -> Case:
    return Case(plan("mini_llm_quality", {**SMALL, **params}, HOST))


def softmax(logits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    powers = np.exp(logits)
    out: npt.NDArray[np.float64] = powers / powers.sum(axis=1, keepdims=True)
    return out


def test_all_figures_by_their_definitions(monkeypatch: pytest.MonkeyPatch) -> None:
    some = case(weights="w4a16", kv="int8")
    ids = some.input("prompt_ids")
    exact = mini_llm.forward(unquantised(some), ids, 6).reshape(12, 31)
    got = (exact + np.random.default_rng(1).normal(0, 0.3, exact.shape)).astype(np.float32)
    some.left(lambda name, start, count: got.reshape(-1)[start : start + count])
    monkeypatch.setattr(mini_llm_quality, "BLOCK", 5 * 31)  # the last block is not full
    found = mini_llm_quality.metrics(some, some._plan.variant("quality").checks[0])
    off = got - exact
    p, q = softmax(exact), softmax(got.astype(np.float64))
    places = [(6 * b + i, ids[b, i + 1]) for b in range(2) for i in range(5)]
    surprise = {name: -np.mean([np.log(of[row, token]) for row, token in places]) for name, of in (("p", p), ("q", q))}
    wanted = {
        "logit_rmse": np.sqrt(np.mean(off**2)),
        "logit_max_abs": np.abs(off).max(),
        "kl_divergence": np.mean(np.sum(p * np.log(p / q), axis=1)),
        "top1_agreement": np.mean(p.argmax(axis=1) == q.argmax(axis=1)),
        "perplexity": np.exp(surprise["q"]),
        "perplexity_unquantised": np.exp(surprise["p"]),
        "perplexity_ratio": np.exp(surprise["q"] - surprise["p"]),
    }
    assert found == pytest.approx(wanted, rel=1e-9)
    assert 0 < found["top1_agreement"] < 1 and found["kl_divergence"] > 0


def test_logits_that_are_equal_cost_nothing() -> None:
    some = case(weights="fp32", kv="fp32")
    exact = mini_llm.forward(some, some.input("prompt_ids"), 6)
    some.left(lambda name, start, count: exact.reshape(-1)[start : start + count])
    found = mini_llm_quality.metrics(some, some._plan.variant("quality").checks[0])
    assert found["kl_divergence"] == found["logit_rmse"] == found["logit_max_abs"] == 0
    assert found["top1_agreement"] == found["perplexity_ratio"] == 1


@pytest.mark.parametrize(
    ("weights", "kept"), [("fp32", "fp32"), ("bf16", "bf16"), ("w8a16", "bf16"), ("w4a16", "bf16")]
)
def test_the_model_before_it_was_quantised(weights: str, kept: str) -> None:
    before = unquantised(case(weights=weights, kv="fp8"))
    assert (before["weights"], before["kv"]) == (kept, "fp32")


def test_rows_are_the_tokens_of_one_sequence_after_the_other() -> None:
    some = case(weights="bf16", kv="bf16")
    whole = mini_llm.forward(some, some.input("prompt_ids"), 6).reshape(12, 31)
    rows = np.array([0, 5, 6, 11])
    check = some._plan.variant("quality").checks[0]
    np.testing.assert_allclose(mini_llm_quality.expected(some, check, rows), whole[rows], rtol=1e-12, atol=1e-12)


def test_the_token_that_follows() -> None:
    assert next_ids(np.array([[4, 5, 6], [7, 8, 9]])).tolist() == [5, 6, -1, 8, 9, -1]
