"""Reference of ``decode_roofline``: rows of W x, in fp32 or rounded to fp16 first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from runner.references.arrays import through_half

if TYPE_CHECKING:
    from runner.check.case import Case
    from runner.plan.model import Check


def expected(case: Case, check: Check, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Elements ``rows`` of y, shape (rows,)."""
    stored = through_half if check.name.endswith("_fp16") else _exact
    x = stored(case.input("x"))
    return np.array([stored(case.input("w", int(row))) @ x for row in rows], dtype=np.float64)


def _exact(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    return values.astype(np.float64)
