"""The closed form against multiply-adds in exact fractions, and that float32 rounds none of them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from runner.check.generator import uniform as generated
from runner.references.host_transfer import expected
from tests.references.cases import case, check, rows


@pytest.mark.parametrize("compute", [0, 1, 2, 7, 64])
def test_the_closed_form_is_the_loop(compute: int) -> None:
    source = generated(5, 0, 40, -1.0, 1.0)
    some = case({"elements": 40, "compute": compute}, source=source)
    got = expected(some, check("pageable_roundtrip"), rows(0, 7, 39))
    for value, index in zip(got, (0, 7, 39), strict=True):
        exact, single = Fraction(float(source[index])), source[index]
        for _ in range(compute):
            exact = -exact + Fraction(1, 2)
            single = np.float32(np.float32(-1.0) * single + np.float32(0.5))
        assert Fraction(float(value)) == exact == Fraction(float(single))


def test_an_odd_number_changes_every_element() -> None:
    source = generated(6, 0, 1000, -1.0, 1.0)
    got = expected(case({"elements": 1000, "compute": 3}, source=source), check("x"), rows(*range(1000)))
    assert (got != source).mean() > 0.99
