from __future__ import annotations

import math

import numpy as np

from runner.references.ceilings import expected
from tests.references.cases import case, check, rows, uniform


def test_copy_is_the_array_and_read_its_sums() -> None:
    source = uniform(1, 4, 64)
    some = case({"blocks": 4, "segment": 64}, source=source)
    assert np.array_equal(expected(some, check("copy"), rows(3, 1)), source[[3, 1]].astype(float))
    got = expected(some, check("read"), rows(0, 2))
    assert np.allclose(got, [math.fsum(map(float, source[0])), math.fsum(map(float, source[2]))], atol=1e-13)
