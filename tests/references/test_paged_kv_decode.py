from __future__ import annotations

import math

import numpy as np
import pytest

from runner.references.paged_kv_decode import expected, inputs
from tests.references.cases import case, check, rows, uniform

B, T, H, D, PAGE, WIDTH = 2, 11, 3, 16, 4, 3
Q, K, V = uniform(1, B, H, D), uniform(2, B, T, H, D), uniform(3, B, T, H, D)
SYMBOLS = {"B": B, "T": T, "H": H, "D": D, "page": PAGE, "pages": B * WIDTH, "table_width": WIDTH}
CASE = case(SYMBOLS, q=Q, k=K, v=V)
EVERY = rows(*range(B * H))
FIXTURES = ["contiguous_scan", "contiguous_token_scan", "paged_ordered_scan", "paged_fragmented_scan"]


@pytest.mark.parametrize("name", FIXTURES)
def test_fixture_against_einsum(name: str) -> None:
    want = np.einsum("bthd,bthd->bhd", K.astype(float), V.astype(float)) / math.sqrt(T)
    assert np.allclose(expected(CASE, check(name), EVERY), want.reshape(B * H, D), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("table", ["ordered_table", "fragmented_table"])
def test_attention_page_by_page_through_the_table(table: str) -> None:
    """A running maximum and sum over pages of a pool, as a paged kernel goes through them."""
    pages = inputs(CASE, table)
    pool_k, pool_v = np.full((2, B * WIDTH, PAGE, H, D), np.nan)
    for b in range(B):
        for t in range(T):
            pool_k[pages[b, t // PAGE], t % PAGE] = K[b, t]
            pool_v[pages[b, t // PAGE], t % PAGE] = V[b, t]
    got = expected(CASE, check("softmax_fragmented_attention"), EVERY).reshape(B, H, D)
    for b in range(B):
        for h in range(H):
            maximum, total, out = -math.inf, 0.0, np.zeros(D)
            for logical in range(WIDTH):
                count = min(PAGE, T - logical * PAGE)
                k = pool_k[pages[b, logical], :count, h]
                v = pool_v[pages[b, logical], :count, h]
                scores = k @ Q[b, h].astype(float) / math.sqrt(D)
                highest = max(maximum, float(scores.max()))
                weights = np.exp(scores - highest)
                rescale = math.exp(maximum - highest)
                out, total, maximum = out * rescale + weights @ v, total * rescale + weights.sum(), highest
            assert np.allclose(got[b, h], out / total, rtol=1e-12, atol=1e-14)


def test_tables() -> None:
    ordered, fragmented = inputs(CASE, "ordered_table"), inputs(CASE, "fragmented_table")
    assert np.array_equal(ordered.ravel(), np.arange(B * WIDTH))
    assert fragmented.shape == (B, WIDTH)
    assert sorted(fragmented.ravel()) == list(range(B * WIDTH))
    assert not np.array_equal(ordered, fragmented)


def test_only_the_rows_asked_for_in_their_order() -> None:
    for name in ("contiguous_scan", "softmax_ordered_attention"):
        whole = expected(CASE, check(name), EVERY)
        assert np.array_equal(expected(CASE, check(name), rows(5, 0, 3)), whole[[5, 0, 3]])
