from __future__ import annotations

import numpy as np
import pytest

from runner.references.decode_roofline import expected
from tests.references.cases import case, check, rows, uniform


@pytest.mark.parametrize("name", ["gemv_row", "gemv_splitk"])
def test_against_einsum(name: str) -> None:
    w, x = uniform(1, 5, 33), uniform(2, 33)
    got = expected(case({"N": 5, "K": 33}, w=w, x=x), check(name), rows(4, 0, 2))
    want = np.einsum("nk,k->n", w.astype(np.longdouble), x.astype(np.longdouble))
    assert np.allclose(got, want[[4, 0, 2]].astype(float), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("name", ["gemv_row_fp16", "gemv_splitk_fp16"])
def test_fp16_against_rounded_operands(name: str) -> None:
    w, x = uniform(1, 5, 33), uniform(2, 33)
    got = expected(case({"N": 5, "K": 33}, w=w, x=x), check(name), rows(*range(5)))
    want = [sum(float(np.float16(a)) * float(np.float16(b)) for a, b in zip(row, x, strict=True)) for row in w]
    assert np.allclose(got, want, rtol=1e-13)
    assert not np.allclose(got, w.astype(float) @ x.astype(float), rtol=1e-9)
