"""Quantisation as the kernels do it, against loops over single numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from runner.references import arrays
from tests.references.cases import case, rows, uniform


def e4m3_values() -> list[float]:
    """Every non-negative finite value of the format by its definition: bias 7, 3 mantissa bits, 1111.111 is NaN."""
    found = []
    for bits in range(0x7F):
        exponent, mantissa = bits >> 3, bits & 7
        found.append(mantissa / 8 * 2.0**-6 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7))
    return found


def test_e4m3_ends_at_the_largest_value() -> None:
    assert max(e4m3_values()) == arrays.FLOAT8_MAX


def test_through_float8_takes_the_nearest_value() -> None:
    values = uniform(1, 5, 40)
    scale = np.float32(np.abs(values).max()) / np.float32(448)
    table = e4m3_values()
    got = arrays.through_float8(values)
    for value, found in zip(values.ravel(), got.ravel(), strict=True):
        ratio = float(np.float32(value / scale))
        nearest = min(table, key=lambda entry: abs(entry - abs(ratio)))
        assert abs(abs(found / float(scale)) - abs(ratio)) <= abs(nearest - abs(ratio)) * (1 + 1e-6) + 1e-9
        assert found == 0 or math.copysign(1, found) == math.copysign(1, value)
    assert np.abs(got).max() == 448 * float(scale)


@pytest.mark.parametrize("levels", [7.0, 127.0])
def test_through_int_is_rounding_to_a_grid(levels: float) -> None:
    values = uniform(2, 3, 50)
    got = arrays.through_int(values, levels)
    for row, found in zip(values, got, strict=True):
        scale = max(abs(v) for v in row) / np.float32(levels)
        for value, result in zip(row, found, strict=True):
            level = result / float(scale)
            assert level == pytest.approx(round(level), abs=1e-9) and abs(round(level)) <= levels
            assert abs(result - float(value)) <= float(scale) / 2 * (1 + 1e-5)
        assert round(float(np.abs(found).max() / scale)) == levels


def test_halves_round_to_even() -> None:
    values = np.array([[127.0, 0.5, 1.5, 2.5, -0.5, -1.5]], np.float32)
    assert arrays.through_int(values, 127.0).tolist() == [[127.0, 0.0, 2.0, 2.0, 0.0, -2.0]]


def test_zeros_stay_zeros() -> None:
    zeros = np.zeros((2, 4), np.float32)
    assert not arrays.through_int(zeros, 127.0).any()
    assert not arrays.through_float8(zeros).any()


def test_through_half_keeps_eleven_bits() -> None:
    values = np.array([1 + 2.0**-10, 1 + 2.0**-11, 1 + 3 * 2.0**-11], np.float32)
    assert arrays.through_half(values).tolist() == [1 + 2.0**-10, 1.0, 1 + 2.0**-9]


def test_elements_one_by_one_and_at_once_agree() -> None:
    x = uniform(3, 5000)
    some = case({}, x=x)
    assert arrays.elements(some, "x", rows(4, 1, 4999), 5000).tolist() == x[[4, 1, 4999]].tolist()
    many = np.arange(0, 5000, 3)
    assert arrays.elements(some, "x", many, 5000).tolist() == x[many].tolist()
