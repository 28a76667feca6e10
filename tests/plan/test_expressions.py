"""Arithmetic in YAML."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.plan.errors import FamilyError
from runner.plan.expressions import Evaluator, align, ceil_div, clamp, next_pow2, prev_pow2

SIZES = st.integers(min_value=1, max_value=10**12)


@given(SIZES, SIZES)
def test_ceil_div_is_the_smallest_count_that_covers(total: int, step: int) -> None:
    count = ceil_div(total, step)
    assert count * step >= total > (count - 1) * step


@given(SIZES, st.integers(min_value=1, max_value=4096))
def test_align_rounds_up_to_the_next_multiple(value: int, to: int) -> None:
    assert align(value, to) % to == 0
    assert 0 <= align(value, to) - value < to


@given(SIZES)
def test_powers_of_two_bracket_the_value(value: int) -> None:
    assert prev_pow2(value) <= value <= next_pow2(value)
    assert math.log2(prev_pow2(value)).is_integer() and math.log2(next_pow2(value)).is_integer()
    assert next_pow2(value) < 2 * value or value == 1


@given(st.integers(), st.integers(0, 100), st.integers(100, 200))
def test_clamp_stays_inside(value: int, low: int, high: int) -> None:
    assert low <= clamp(value, low, high) <= high


def test_products_of_dimensions_stay_exact_integers() -> None:
    evaluate = Evaluator({"B": 64, "H": 128, "T": 1_048_576, "D": 128})
    assert evaluate.integer("2*B*H*T*D", "here") == 2 * 64 * 128 * 1_048_576 * 128


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(
        FamilyError, match=r"buffers\.k: 'B\*contxt' uses the unknown name 'contxt'; did you mean context"
    ):
        Evaluator({"B": 1, "context": 2}).integer("B*contxt", "buffers.k")


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os').system('true')",
        "B.__class__",
        "[x for x in (1,)]",
        "lambda: 1",
        "open('/etc/passwd')",
        "9**9**9",
    ],
)
def test_nothing_but_arithmetic_is_evaluated(expression: str) -> None:
    with pytest.raises(FamilyError):
        Evaluator({"B": 1}).value(expression, "here")


def test_a_fraction_is_not_taken_for_an_integer() -> None:
    evaluate = Evaluator({"K": 7})
    assert evaluate.integer("K*4/2", "here") == 14
    with pytest.raises(FamilyError, match=r"gives 3\.5, not an integer"):
        evaluate.integer("K/2", "here")


def test_division_by_zero_names_its_place() -> None:
    with pytest.raises(FamilyError, match=r"derived\.groups: 'K // group' divides by zero"):
        Evaluator({"K": 7, "group": 0}).integer("K // group", "derived.groups")
