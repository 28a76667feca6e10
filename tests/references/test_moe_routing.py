from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from runner.check.case import Case
from runner.references.moe_routing import expected, inputs, route
from tests.references.cases import case, check, rows, uniform

T, H, E, K, CAPACITY = 23, 6, 5, 2, 7
X, SCALE, BIAS = uniform(1, T, H), uniform(2, E, H), uniform(3, E, H)


def routed(**changed: Any) -> Case:
    symbols = {"T": T, "H": H, "E": E, "K": K, "capacity": CAPACITY, "routing": "zipf", "skew": 1.0, **changed}
    gate = inputs(case(symbols), "gate")
    return case(symbols, x=X, scale=SCALE, bias=BIAS, gate=gate)


def test_experts_of_a_token_differ_and_ranks_count_up() -> None:
    made = route(routed())
    seen = [0] * E
    for token in range(T):
        assert len(set(made.experts[token])) == K
        for expert, rank in zip(made.experts[token], made.ranks[token], strict=True):
            assert rank == seen[expert]
            seen[expert] += 1
    assert seen == list(made.counts)


@pytest.mark.parametrize(("routing", "skew"), [("uniform", 1.0), ("zipf", 1.0), ("zipf", 2.0)])
def test_popularity(routing: str, skew: float) -> None:
    counts = route(routed(T=40000, K=1, routing=routing, skew=skew)).counts
    weights = np.ones(E) if routing == "uniform" else 1.0 / np.arange(1, E + 1) ** skew
    assert np.allclose(counts / 40000, weights / weights.sum(), atol=0.015)


@pytest.mark.parametrize("name", ["padded_moe", "compact_moe"])
def test_walking_the_tables_as_the_kernels_do(name: str) -> None:
    """Dispatch, experts and gather through the tables, against the layer token by token."""
    some = routed()
    gate = inputs(some, "gate").astype(float)
    if name == "padded_moe":
        source, where = inputs(some, "slot_token"), inputs(some, "token_slot")
        owner = np.repeat(np.arange(E), CAPACITY)
        assert (where < 0).any() and (source < 0).any()
    else:
        source, where, owner = (inputs(some, table) for table in ("row_token", "compact_pos", "row_expert"))
        assert (np.diff(owner) >= 0).all() and sorted(where.reshape(-1)) == list(range(T * K))
    out = np.where(source[:, None] >= 0, X[source], 0.0) * SCALE[owner].astype(float) + BIAS[owner]
    want = np.zeros((T, H))
    for token in range(T):
        for k in range(K):
            if where[token, k] >= 0:
                assert source[where[token, k]] == token
                want[token] += gate[token, k] * out[where[token, k]]
    assert np.allclose(expected(some, check(name), rows(*range(T))), want, rtol=1e-12, atol=1e-14)


def test_gates_sum_to_one() -> None:
    gate = inputs(routed(), "gate")
    assert gate.dtype == np.float32 and np.allclose(gate.sum(axis=1), 1.0, atol=1e-6) and gate.min() > 0
