from __future__ import annotations

import math

import numpy as np
import pytest

from runner.references.logits_processor import expected, inputs, nucleus
from tests.references.cases import case, check, rows, uniform

B, V = 3, 41
LOGITS = 6 * uniform(1, B, V)
RECENT = np.array([[3, 3, 7, 3], [0, 40, 0, 40], [5, 6, 5, 6]])
BAD = np.array([[3, 9], [1, 1], [2, 40]])
SIZES = {"B": B, "V": V, "recent": 4, "bad": 2, "temperature": 0.7, "penalty": 1.3, "top_p": 0.9}
CASE = case(SIZES, logits=LOGITS, recent_ids=RECENT, bad_ids=BAD)


@pytest.mark.parametrize("name", ["separate_processor", "fused_processor"])
def test_processed_against_a_loop_over_tokens(name: str) -> None:
    got = expected(CASE, check(name), rows(2, 0, 1))
    for answer, row in zip(got, (2, 0, 1), strict=True):
        for token in range(V):
            want = float(LOGITS[row, token]) / 0.7
            if token in RECENT[row].tolist():
                want = want / 1.3 if want > 0 else want * 1.3
            if token in BAD[row].tolist():
                want = -65504.0
            assert answer[token] == pytest.approx(want, rel=1e-6)


def test_empty_lists_leave_the_temperature() -> None:
    plain = case({**SIZES, "recent": 0, "bad": 0}, logits=LOGITS, recent_ids=RECENT, bad_ids=BAD)
    assert np.allclose(expected(plain, check("fused_processor"), rows(1)), LOGITS[[1]] / 0.7, rtol=1e-6)


@pytest.mark.parametrize("top_p", [0.05, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("tied", [False, True])
def test_nucleus_against_taking_tokens_one_by_one(top_p: float, tied: bool) -> None:
    logits = np.rint(LOGITS[0] / 2) if tied else LOGITS[0]
    weights = {token: math.exp(float(logits[token])) for token in range(V)}
    total = math.fsum(weights.values())
    kept: list[int] = []
    while math.fsum(weights[token] for token in kept) < top_p * total:
        left = [token for token in range(V) if token not in kept]
        kept.append(max(left, key=lambda token: (weights[token], -token)))
    cutoff, mass, count = nucleus(logits.astype(np.float32), top_p)
    assert (cutoff, count) == (min(float(logits[token]) for token in kept), len(kept))
    assert mass == pytest.approx(math.fsum(weights[token] for token in kept) / total, rel=1e-12)


def test_each_check_gets_its_figure() -> None:
    processed = expected(CASE, check("fused_processor"), rows(1))[0].astype(np.float32)
    want = nucleus(processed, float(np.float32(0.9)))
    got = [expected(CASE, check(f"top_p_{name}"), rows(1)).tolist() for name in ("cutoff", "mass", "kept")]
    assert got == [[figure] for figure in want]


def test_recent_ids_repeat_and_one_is_forbidden() -> None:
    sized = case({**SIZES, "B": 2, "V": 1000, "recent": 9, "bad": 5})
    recent, bad = inputs(sized, "recent_ids"), inputs(sized, "bad_ids")
    assert recent.shape == (2, 9) and bad.shape == (2, 5)
    assert all(len(set(ids.tolist())) <= 5 for ids in recent)
    assert (recent[:, 0] == bad[:, 0]).all() and recent[0].tolist() != recent[1].tolist()
    assert min(recent.min(), bad.min()) >= 0 and max(recent.max(), bad.max()) < 1000


def test_an_empty_list_has_a_column_that_nobody_reads() -> None:
    sized = case({**SIZES, "recent": 0, "bad": 0})
    assert inputs(sized, "recent_ids").shape == inputs(sized, "bad_ids").shape == (B, 1)
