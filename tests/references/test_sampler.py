from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest

from runner.references.sampler import expected
from tests.references.cases import case, check, rows, uniform

LOGITS = 4 * uniform(1, 3, 37)
TIED = np.random.default_rng(2).integers(-2, 3, (3, 37)).astype(np.float32)


def ordered(row: npt.NDArray[np.float32]) -> list[int]:
    """Indices from the largest logit down, of equal ones the lowest first, by comparing pairs."""
    return sorted(range(len(row)), key=lambda i: (-float(row[i]), i))


@pytest.mark.parametrize("logits", [LOGITS, TIED], ids=["distinct", "tied"])
def test_largest_against_a_sort_of_pairs(logits: npt.NDArray[np.float32]) -> None:
    given = case({"temperature": 1.0}, logits=logits)
    for row in range(3):
        order = ordered(logits[row])
        assert expected(given, check("argmax_index"), rows(row)).tolist() == [order[0]]
        assert expected(given, check("argmax_value"), rows(row)).tolist() == [float(logits[row, order[0]])]
        assert expected(given, check("top4_index"), rows(row)).tolist() == [order[:4]]
        assert expected(given, check("top4_value"), rows(row)).tolist() == [[float(logits[row, i]) for i in order[:4]]]


@pytest.mark.parametrize("temperature", [0.5, 0.8, 2.0])
def test_softmax_sum_is_one_over_the_largest_probability(temperature: float) -> None:
    given = case({"temperature": temperature}, logits=LOGITS)
    got = expected(given, check("softmax_sum"), rows(2, 0))
    for answer, row in zip(got, (2, 0), strict=True):
        weights = [math.exp(float(x) / temperature) for x in LOGITS[row]]
        assert answer == pytest.approx(math.fsum(weights) / max(weights), rel=1e-12)


def test_answers_in_the_types_the_checks_take() -> None:
    given = case({"temperature": 0.8}, logits=TIED)
    kinds = {"argmax_value": "f8", "argmax_index": "i8", "softmax_sum": "f8", "top4_value": "f8", "top4_index": "i8"}
    for name, dtype in kinds.items():
        answer = expected(given, check(name), rows(1, 2))
        assert answer.dtype == np.dtype(dtype) and answer.shape == ((2, 4) if "top4" in name else (2,))


def test_a_zero_of_either_sign_is_a_tie() -> None:
    given = case({"temperature": 1.0}, logits=np.array([[-1, -0.0, 0.0, -0.0, 0.0]], np.float32))
    assert expected(given, check("top4_index"), rows(0)).tolist() == [[1, 2, 3, 4]]
