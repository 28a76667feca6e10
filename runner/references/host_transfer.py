"""Reference of ``host_transfer``: what comes back after ``compute`` times ``x → 1/2 - x``, in closed form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from runner.references.arrays import elements

if TYPE_CHECKING:
    from runner.check.case import Case
    from runner.plan.model import Check


def expected(case: Case, check: Check, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Elements ``rows`` of what the host receives, float64, shape (rows,); the same for every variant."""
    return mirrored(elements(case, "source", rows, case["elements"]), case["compute"])


def mirrored(values: npt.NDArray[np.float32], times: int) -> npt.NDArray[np.float64]:
    """``values`` after ``times`` times ``x → 1/2 - x``: itself, or its mirror image after an odd number."""
    wide = values.astype(np.float64)
    return 0.5 - wide if times % 2 else wide
