"""Rotations against high-precision arithmetic, and tables against the angles they stand for."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from runner.references.rope_layout import expected, inputs
from tests.references.cases import case, check, rows, uniform

B, T, H, D, THETA = 2, 5, 3, 6, 10000.0
X = uniform(1, B, T, H, D)
CASE = case({"B": B, "T": T, "H": H, "D": D, "theta": THETA}, x=X)


@pytest.mark.parametrize("name", ["separate_sincos", "fused_sincos", "fused_lut"])
def test_rotation_and_layout(name: str) -> None:
    got = expected(CASE, check(name), rows(*range(B * H * T))).reshape(B, H, T, D)
    for b, h, t, i in np.ndindex(B, H, T, D // 2):
        angle = t * math.exp(-2 * i / D * math.log(THETA))
        even, odd = float(X[b, t, h, 2 * i]), float(X[b, t, h, 2 * i + 1])
        assert got[b, h, t, 2 * i] == pytest.approx(even * math.cos(angle) - odd * math.sin(angle), abs=1e-13)
        assert got[b, h, t, 2 * i + 1] == pytest.approx(even * math.sin(angle) + odd * math.cos(angle), abs=1e-13)


def test_scores_depend_on_the_distance_alone() -> None:
    """What the rotation is for: q at 4 and k at 3 meet as q at 2 and k at 1 do."""
    same = np.broadcast_to(X[:1, :1], (1, T, H, D))
    turned = expected(
        case({"B": 1, "T": T, "H": H, "D": D, "theta": THETA}, x=same), check("fused_lut"), rows(*range(H * T))
    ).reshape(H, T, D)
    assert float(turned[0, 4] @ turned[1, 3]) == pytest.approx(float(turned[0, 2] @ turned[1, 1]), abs=1e-13)


def test_some_rows_only() -> None:
    whole = expected(CASE, check("fused_lut"), rows(*range(B * H * T)))
    assert np.array_equal(expected(CASE, check("fused_lut"), rows(29, 7)), whole[[29, 7]])


def test_tables_hold_every_position() -> None:
    many = case({"T": 4099, "D": 4, "theta": 500000.0})
    cosines, sines = inputs(many, "cos_lut"), inputs(many, "sin_lut")
    assert cosines.shape == sines.shape == (4099, 2) and cosines.dtype == sines.dtype == np.float32
    for t in (0, 1, 4095, 4096, 4098):
        for i, angle in enumerate((float(t), t * 500000.0**-0.5)):
            assert float(cosines[t, i]) == pytest.approx(math.cos(angle), abs=3.1e-8)
            assert float(sines[t, i]) == pytest.approx(math.sin(angle), abs=3.1e-8)


def test_two_floats_keep_the_angle_at_any_position() -> None:
    """One float would be off by turns * 2**-25: a twentieth of a turn at the last position."""
    some = case({"D": 8, "theta": THETA})
    pairs = inputs(some, "frequency")
    assert pairs.shape == (4, 2) and pairs.dtype == np.float32
    for i, (high, low) in enumerate(pairs):
        turns = Fraction(THETA ** (-2 * i / 8)) / Fraction(2 * math.pi)
        error = (Fraction(float(high)) + Fraction(float(low)) - turns) * 2**24
        assert abs(error) < Fraction(1, 10**7)
