"""RMSNorm and levels against plain Python, one element at a time."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest

from runner.references.fusion import expected
from tests.references.cases import case, check, rows, uniform

B, H = 3, 7
X, RESIDUAL, GAMMA = uniform(1, B, H), uniform(2, B, H), np.abs(uniform(3, H)) + np.float32(0.5)
CASE = case({"B": B, "H": H}, x=X, residual=RESIDUAL, gamma=GAMMA)


def norm(b: int) -> list[float]:
    added = [float(X[b, h]) + float(RESIDUAL[b, h]) for h in range(H)]
    inverse = 1.0 / math.sqrt(math.fsum(v * v for v in added) / H + 1e-5)
    return [v * inverse * float(g) for v, g in zip(added, GAMMA, strict=True)]


@pytest.mark.parametrize("variant", ["separate", "fused"])
def test_norm(variant: str) -> None:
    got = expected(CASE, check(f"{variant}_norm"), rows(2, 0))
    assert np.allclose(got, [norm(2), norm(0)], rtol=1e-13, atol=0)


@pytest.mark.parametrize("variant", ["separate", "fused", "fused_no_norm"])
def test_scale_and_ratios(variant: str) -> None:
    scales = expected(CASE, check(f"{variant}_scale"), rows(0, 1, 2))
    ratios = expected(CASE, check(f"{variant}_quant"), rows(0, 1, 2))
    for b in range(B):
        unit = max(abs(v) for v in norm(b)) / 127.0
        assert scales[b] == pytest.approx(unit, rel=1e-13)
        assert ratios[b] == pytest.approx([v / unit for v in norm(b)], rel=1e-12)
        assert np.abs(ratios[b]).max() == pytest.approx(127.0, rel=1e-13)


def test_levels_times_scale_are_the_norm_within_half_a_level() -> None:
    scales = expected(CASE, check("fused_scale"), rows(1))
    levels = np.rint(expected(CASE, check("fused_quant"), rows(1)))
    assert np.abs(levels[0] * scales[0] - norm(1)).max() <= 0.5 * scales[0] * (1 + 1e-12)


def test_a_row_of_zeros_has_no_scale_and_no_levels() -> None:
    nothing: npt.NDArray[np.float32] = np.zeros((1, H), np.float32)
    empty = case({"B": 1, "H": H}, x=nothing, residual=nothing, gamma=GAMMA)
    assert expected(empty, check("fused_scale"), rows(0)).tolist() == [0.0]
    assert not expected(empty, check("fused_quant"), rows(0)).any()
