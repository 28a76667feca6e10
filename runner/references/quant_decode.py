"""Reference of ``quant_decode``: rows of W x, with W quantised in groups exactly as the device does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from runner.references.arrays import through_groups

if TYPE_CHECKING:
    from runner.check.case import Case
    from runner.plan.model import Check

LEVELS = {"q8_gemv": 127.0, "q4_gemv": 7.0}
"""Largest quantised magnitude by check; fp32_gemv is not quantised."""


def expected(case: Case, check: Check, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Elements ``rows`` of y, shape (rows,)."""
    x = case.input("x").astype(np.float64)
    levels = LEVELS.get(check.name)
    return np.array([_stored(case.input("w", int(row)), levels, case["group"]) @ x for row in rows], dtype=np.float64)


def _stored(row: npt.NDArray[np.float32], levels: float | None, group: int) -> npt.NDArray[np.float64]:
    """One row of W as the kernel sees it, shape (K,)."""
    if levels is None:
        return row.astype(np.float64)
    found: npt.NDArray[np.float64] = through_groups(row[None], levels, group)[0]
    return found
