from __future__ import annotations

import math

import numpy as np
import pytest

from runner.references.gqa_decode import expected
from tests.references.cases import case, check, rows, uniform

B, QH, KVH, T, D = 2, 6, 2, 9, 16
Q = uniform(1, B, QH, D)
HEADS = {"mha": QH, "gqa": KVH, "mqa": 1}
KV = {name: (uniform(2, B, heads, T, D), uniform(3, B, heads, T, D)) for name, heads in HEADS.items()}
ARRAYS = {f"{name}_{which}": KV[name][i] for name in KV for i, which in enumerate("kv")}
CASE = case({"B": B, "QH": QH, "KVH": KVH, "T": T, "D": D}, q=Q, **ARRAYS)
EVERY = rows(*range(B * QH))


@pytest.mark.parametrize("name", HEADS)
def test_fixture_against_a_grouped_einsum(name: str) -> None:
    k, v = (x.astype(float) for x in KV[name])
    grouped = Q.astype(float).reshape(B, HEADS[name], -1, D)
    scores = np.einsum("bhgd,bhtd->bhgt", grouped, k)
    want = np.einsum("bhgt,bhtd->bhgd", scores, v).reshape(B * QH, D) / math.sqrt(T * D)
    assert np.allclose(expected(CASE, check(f"{name}_scan"), EVERY), want, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", HEADS)
def test_attention_against_repeated_heads(name: str) -> None:
    k, v = (np.repeat(x.astype(float), QH // HEADS[name], axis=1) for x in KV[name])
    weights = np.exp(np.einsum("bhd,bhtd->bht", Q.astype(float), k) / math.sqrt(D))
    want = np.einsum("bht,bhtd->bhd", weights / weights.sum(-1, keepdims=True), v).reshape(B * QH, D)
    assert np.allclose(expected(CASE, check(f"softmax_{name}_attention"), EVERY), want, rtol=1e-12, atol=1e-13)


def test_block_variants_have_the_reference_of_their_form() -> None:
    for name in ("gqa", "mqa"):
        some = rows(7, 2)
        assert np.array_equal(
            expected(CASE, check(f"{name}_block_scan"), some), expected(CASE, check(f"{name}_scan"), some)
        )
