from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from runner.references.spec_decode import expected, inputs, lengths
from tests.references.cases import case, check, rows, uniform


def sizes(windows: int, draft: int, accept: int, probability: float = 0.0) -> dict[str, Any]:
    expected_length = sum(probability**j for j in range(1, draft + 1)) if probability else accept
    drafts = round(windows * expected_length)
    given = {"windows": windows, "draft": draft, "accept": accept, "probability": probability}
    return {**given, "accepted_drafts": drafts, "tokens": drafts + windows}


def walk(draft_ids: list[list[int]], target_ids: list[list[int]]) -> list[int]:
    """Tokens yielded, by comparing one proposal after another."""
    tokens = []
    for proposals, own in zip(draft_ids, target_ids, strict=True):
        place = 0
        while place < len(proposals) and proposals[place] == own[place]:
            tokens.append(proposals[place])
            place += 1
        tokens.append(own[place])
    return tokens


@pytest.mark.parametrize(
    "given",
    [sizes(1, 1, 1), sizes(7, 4, 3), sizes(5, 8, 8), sizes(33, 4, 1, 0.7), sizes(40, 8, 1, 0.99), sizes(9, 3, 1, 0.01)],
    ids=str,
)
def test_tables_against_a_walk_through_the_windows(given: dict[str, Any]) -> None:
    made = case(given)
    draft_ids, target_ids = inputs(made, "draft_ids"), inputs(made, "target_ids")
    assert draft_ids.shape == (given["windows"], given["draft"])
    emitted = inputs(made, "emitted_ids")
    assert emitted.shape == (given["tokens"],)
    assert walk(draft_ids.tolist(), target_ids.tolist()) == emitted.tolist()
    assert lengths(made).sum() == given["accepted_drafts"]


def test_lengths_without_a_probability_are_what_accept_says() -> None:
    assert lengths(case(sizes(6, 5, 2))).tolist() == [2] * 6


def test_lengths_with_one_follow_it() -> None:
    """Of many windows, a share 1 - p accepts nothing and p^draft all."""
    found = lengths(case(sizes(20_000, 4, 1, 0.6)))
    for length, share in enumerate([0.4, 0.24, 0.144, 0.0864, 0.1296]):
        assert (found == length).mean() == pytest.approx(share, abs=0.012)


def test_rows_against_a_loop() -> None:
    given = sizes(5, 3, 2)
    x = uniform(1, 7)
    emitted = inputs(case(given), "emitted_ids")
    made = case({**given, "N": 7}, x=x, emitted_ids=emitted)
    got = expected(made, check("spec_verify"), rows(14, 0, 6))
    for answer, token in zip(got, (14, 0, 6), strict=True):
        assert answer.tolist() == [float(value) / 2 + int(emitted[token]) / 65536 for value in x]
    assert got.dtype == np.float64
