"""Choosing rows and judging outputs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.check.compare import MAX_SAMPLED, choose_rows, compare, errors, same
from runner.plan.model import Check

CHECK = Check("scan", output="y", row_dims=1, row_cost=1, atol=1e-3, rtol=1e-2)
EXACT = replace(CHECK, exact=True, atol=0, rtol=0)
REF = np.array([[1.0, 2.0], [3.0, 4.0], [-5.0, 0.0]])


def output(dtype: Any = np.float32) -> npt.NDArray[Any]:
    return REF.astype(dtype)


def poison(shape: tuple[int, ...], dtype: Any) -> npt.NDArray[Any]:
    out = np.empty(shape, dtype)
    out.view(np.uint8)[...] = 0xFF
    return out


@given(st.integers(0, 10**12), st.integers(1, 10**6), st.integers(1, 10**7), st.integers(0, 2**64 - 1))
def test_rows_are_a_sorted_sample_within_the_budget(total: int, cost: int, budget: int, seed: int) -> None:
    if total * cost <= budget and total > 10**5:
        total %= 10**5  # every row is given then; keep the arrays of this test small
    rows = choose_rows(total, cost, budget, seed)
    assert rows.dtype == np.int64
    assert (np.diff(rows) > 0).all()
    if total * cost <= budget:
        assert rows.tolist() == list(range(total))
        return
    assert len(rows) == max(min(2, total), min(total, budget // cost, MAX_SAMPLED))
    assert rows[0] == 0 and rows[-1] == total - 1
    assert np.array_equal(rows, choose_rows(total, cost, budget, seed))


def test_another_seed_gives_other_rows() -> None:
    assert not np.array_equal(choose_rows(10**6, 1, 1000, 1), choose_rows(10**6, 1, 1000, 2))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, np.int32])
def test_equal_passes_with_zero_errors(dtype: Any) -> None:
    result = compare(CHECK, output(dtype), REF)
    assert result.passed and result.message == ""
    assert (result.max_abs_err, result.max_rel_err, result.l2_err) == (0, 0, 0)
    assert (result.rows_checked, result.rows_total) == (3, 3)


def test_within_tolerance_passes_and_reports_the_errors() -> None:
    out = REF.copy()
    out[1, 1] += 0.04  # allowed: 0.001 + 0.01 * 4
    result = compare(CHECK, out, REF)
    assert result.passed
    assert result.max_abs_err == pytest.approx(0.04)
    assert result.max_rel_err == pytest.approx(0.01)
    assert result.l2_err == pytest.approx(0.04 / np.linalg.norm(REF))


def test_beyond_tolerance_names_the_worst_element_in_the_whole_output() -> None:
    out = REF.copy()
    out[0, 1], out[2, 0] = 2.5, -7.0
    result = compare(CHECK, out, REF, np.array([0, 4, 9]), (10, 2))
    assert not result.passed
    assert result.rows_total == 10
    assert result.message == "2 of 6 elements wrong, y[9, 0]: got -7, expected -5 (error 2, allowed 0.051)"


def test_an_index_has_every_dimension() -> None:
    check = replace(CHECK, row_dims=2)
    ref = np.ones((2, 3))
    out = ref.copy()
    out[1, 2] = 9
    assert "y[3, 4, 2]: got 9" in compare(check, out, ref, np.array([0, 19]), (4, 5, 3)).message


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_fails_even_where_the_reference_has_it_too(bad: float) -> None:
    out, ref = REF.copy(), REF.copy()
    out[1, 0] = ref[1, 0] = bad
    result = compare(CHECK, out, ref)
    assert not result.passed
    assert "1 of 6 elements not finite, y element 2: got" in result.message
    assert result.max_abs_err is None


def test_a_tolerance_of_infinity_does_not_excuse_nan() -> None:
    out = REF.copy()
    out[0, 0] = np.nan
    assert not compare(replace(CHECK, atol=np.inf), out, REF).passed


def test_all_zero_fails_whatever_the_tolerance() -> None:
    loose = replace(CHECK, atol=100)
    result = compare(loose, np.zeros_like(REF), REF)
    assert not result.passed
    assert "the output is all zero" in result.message
    assert compare(replace(loose, zero_ok=True), np.zeros_like(REF), REF).passed
    assert compare(loose, np.zeros_like(REF), np.zeros_like(REF)).passed


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.float64])
def test_a_poisoned_float_output_was_never_written(dtype: Any) -> None:
    result = compare(CHECK, poison(REF.shape, dtype), REF)
    assert not result.passed
    assert result.message.startswith("the output was never written; 6 of 6 elements not finite")


@pytest.mark.parametrize("check", [EXACT, CHECK])
@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint8, np.int64])
def test_a_poisoned_integer_output_was_never_written(dtype: Any, check: Check) -> None:
    result = compare(check, poison(REF.shape, dtype), REF.astype(np.int64))
    assert not result.passed
    assert result.message.startswith("the output was never written; 6 of 6 elements wrong")


def test_single_rows_that_were_never_written_are_named() -> None:
    out = output()
    out[1] = poison((2,), np.float32)
    message = compare(CHECK, out, REF, np.array([0, 5, 9]), (10, 2)).message
    assert message.startswith("1 of 3 rows were never written (row 5 first); 2 of 6 elements not finite")


def test_a_right_minus_one_is_no_poison() -> None:
    ref = np.array([[-1, -1], [2, 3]])
    assert compare(EXACT, ref.astype(np.int8), ref).passed
    wrong = ref.astype(np.int8)
    wrong[1, 0] = 5
    assert compare(EXACT, wrong, ref).message == "1 of 4 elements wrong, y element 2: got 5, expected 2"


def test_exact_is_exact_and_prints_no_error_figures() -> None:
    ref = np.array([[1 << 60, 2]])
    result = compare(EXACT, ref.copy(), ref)
    assert result.passed and result.max_abs_err is None and result.l2_err is None
    off = ref.copy()
    off[0, 0] += 1  # lost in float64
    assert not compare(EXACT, off, ref).passed


def test_exact_floats() -> None:
    assert compare(EXACT, output(np.float32), REF).passed
    off = output(np.float32)
    off[1, 1] = np.nextafter(off[1, 1], np.float32(9))
    assert not compare(EXACT, off, REF).passed


def test_an_empty_output_passes() -> None:
    result = compare(CHECK, np.empty((0, 2), np.float32), np.empty((0, 2)))
    assert result.passed and result.rows_checked == 0


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match=r"check 'scan': output of shape \(3, 2\), reference of shape \(2, 2\)"):
        compare(CHECK, output(), REF[:2])


def test_relative_error_next_to_zero_has_a_floor() -> None:
    ref = np.array([1.0, -1.0, 0.0, 1.0])
    largest, relative, _ = errors(ref + np.array([0, 0, 1e-4, 0]), ref)
    rms = np.sqrt(3 / 4)
    assert largest == pytest.approx(1e-4)
    assert relative == pytest.approx(1e-4 / (0.01 * rms))


def test_against_a_zero_reference_there_is_no_relative_l2() -> None:
    assert errors(np.array([0.5, 0.0]), np.zeros(2)) == (0.5, 0.5, None)


def test_same_within_tolerance() -> None:
    out = output()
    assert same(CHECK, out, out.copy()) == ""
    close = out.copy()
    close[1, 1] += np.float32(0.03)
    assert same(CHECK, out, close) == ""
    assert same(replace(CHECK, exact=True), out, close) != ""


def test_same_says_what_changed() -> None:
    before, after = output(), output()
    after[2, 0] = -6
    assert same(CHECK, before, after, np.array([0, 4, 9]), (10, 2)) == (
        "changed between the check before and the check after timing, y[9, 0]: -5, then -6"
    )


def test_a_nan_afterwards_is_a_change() -> None:
    after = output()
    after[0, 0] = np.nan
    assert "y element 0: 1, then nan" in same(CHECK, output(), after)


@given(st.integers(-100, 100), st.integers(-100, 100))
def test_same_is_bit_for_bit_for_exact_integers(first: int, second: int) -> None:
    message = same(EXACT, np.array([[first]], np.int32), np.array([[second]], np.int32))
    assert (message == "") == (first == second)
