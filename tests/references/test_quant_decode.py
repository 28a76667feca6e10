from __future__ import annotations

import numpy as np
import pytest

from runner.references.quant_decode import expected
from tests.references.cases import case, check, rows, uniform

LEVELS = {"q8_gemv": 127, "q4_gemv": 7}


def dequantised(row: list[np.float32], group: int, levels: int) -> list[float]:
    """One row, one number at a time."""
    found: list[float] = []
    for start in range(0, len(row), group):
        part = row[start : start + group]
        scale = np.float32(max(abs(value) for value in part) / np.float32(levels))
        found += [float(round(float(np.float32(value / scale)))) * float(scale) for value in part]
    return found


@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize(("columns", "group"), [(64, 32), (65, 32), (7, 32), (33, 1), (40, 13)])
def test_against_dequantised_loops(name: str, columns: int, group: int) -> None:
    w, x = uniform(1, 3, columns), uniform(2, columns)
    got = expected(case({"N": 3, "K": columns, "group": group}, w=w, x=x), check(name), rows(2, 0))
    for index, found in zip((2, 0), got, strict=True):
        row = dequantised(list(w[index]), group, LEVELS[name])
        assert found == pytest.approx(sum(a * float(b) for a, b in zip(row, x, strict=True)), abs=1e-12)


def test_unquantised() -> None:
    w, x = uniform(1, 3, 20), uniform(2, 20)
    got = expected(case({"N": 3, "K": 20, "group": 8}, w=w, x=x), check("fp32_gemv"), rows(0, 1, 2))
    assert np.allclose(got, np.einsum("nk,k->n", w.astype(float), x.astype(float)), atol=1e-14)


def test_a_smaller_group_and_more_levels_drift_less() -> None:
    w, x = uniform(1, 64, 512), uniform(2, 512)
    every = rows(*range(64))

    def drift(name: str, group: int) -> float:
        some = case({"N": 64, "K": 512, "group": group}, w=w, x=x)
        return float(np.linalg.norm(expected(some, check(name), every) - expected(some, check("fp32_gemv"), every)))

    assert drift("q8_gemv", 128) < drift("q4_gemv", 32) < drift("q4_gemv", 512)
