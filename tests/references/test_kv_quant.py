from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from runner.references.kv_quant import expected
from tests.references.cases import case, check, rows, uniform

B, H, T, D = 2, 3, 11, 16
Q, K, V = uniform(1, B, H, D), uniform(2, B, H, T, D), uniform(3, B, H, T, D)
CASE = case({"B": B, "H": H, "T": T, "D": D}, q=Q, k=K, v=V)
EVERY = rows(*range(B * H))


def per_token(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    scale = np.abs(x).max(axis=-1, keepdims=True) / np.float32(127)
    found: npt.NDArray[np.float64] = np.rint(x / scale).astype(np.int8).astype(float) * scale.astype(float)
    return found


def per_head(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    scale = np.abs(x).max(axis=(-1, -2), keepdims=True) / np.float32(127)
    found: npt.NDArray[np.float64] = np.rint(x / scale).astype(np.int8).astype(float) * scale.astype(float)
    return found


def fp8(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    scale = np.abs(x).max(axis=(-1, -2), keepdims=True) / np.float32(448)
    ratio = np.minimum(np.abs(x / scale), np.float32(448)) * np.sign(x)
    found: npt.NDArray[np.float64] = ratio.astype(ml_dtypes.float8_e4m3fn).astype(float) * scale.astype(float)
    return found


STORED = {
    "fp32_kv_scan": lambda x: x.astype(float),
    "fp32_block_kv_scan": lambda x: x.astype(float),
    "fp16_kv_scan": lambda x: x.astype(np.float16).astype(float),
    "q8_kv_scan": per_token,
    "q8_head_kv_scan": per_head,
    "fp8_kv_scan": fp8,
}


@pytest.mark.parametrize("name", STORED)
def test_fixture_against_einsum(name: str) -> None:
    k, v = STORED[name](K), STORED[name](V)
    scores = np.einsum("bhd,bhtd->bht", Q.astype(float), k)
    want = np.einsum("bht,bhtd->bhd", scores, v) / math.sqrt(T * D)
    got = expected(CASE, check(name), EVERY)
    assert np.allclose(got, want.reshape(B * H, D), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", ["softmax_kv_attention", "softmax_fp16_kv_attention"])
def test_attention_against_loops(name: str) -> None:
    half = "fp16" in name
    got = expected(CASE, check(name), rows(4))[0]
    b, h = 1, 1
    k, v = (x[b, h].astype(np.float16) if half else x[b, h] for x in (K, V))
    weights = [math.exp(sum(float(Q[b, h, d]) * float(k[t, d]) for d in range(D)) / math.sqrt(D)) for t in range(T)]
    for d in range(D):
        want = sum(w * float(v[t, d]) for t, w in enumerate(weights)) / sum(weights)
        assert got[d] == pytest.approx(want, abs=1e-13)


def test_only_the_rows_asked_for_in_their_order() -> None:
    whole = expected(CASE, check("q8_kv_scan"), EVERY)
    some = expected(CASE, check("q8_kv_scan"), rows(5, 2))
    assert np.array_equal(some, whole[[5, 2]])


def test_large_scores_do_not_overflow() -> None:
    large = case({"B": 1, "H": 1, "T": T, "D": D}, q=1e3 * Q[:1, :1], k=1e3 * K[:1, :1], v=V[:1, :1])
    got = expected(large, check("softmax_kv_attention"), rows(0))[0]
    best = int(np.argmax(K[0, 0] @ Q[0, 0]))
    assert np.allclose(got, V[0, 0, best])


@pytest.mark.parametrize("context", [1, 100, 4000])
def test_the_fixture_is_of_order_one_at_any_length(context: int) -> None:
    k, v = uniform(5, 1, 1, context, D), uniform(6, 1, 1, context, D)
    some = case({"B": 1, "H": 1, "T": context, "D": D}, q=Q[:1, :1], k=k, v=v)
    rms = float(np.sqrt(np.mean(expected(some, check("fp32_kv_scan"), rows(0)) ** 2)))
    assert 0.01 < rms < 1.0
