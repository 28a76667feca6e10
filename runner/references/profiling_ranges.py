"""Reference of ``profiling_ranges``: saxpy, and a chain of multiply-adds in closed form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from runner.references.arrays import elements

if TYPE_CHECKING:
    from runner.check.case import Case
    from runner.plan.model import Check

SLOPE = 1.0 - 1.0 / 4096.0


def expected(case: Case, check: Check, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Elements ``rows`` of the output of ``check``, shape (rows,)."""
    x = elements(case, "x", rows, case["N"]).astype(np.float64)
    if check.name == "saxpy":
        y = elements(case, "y", rows, case["N"]).astype(np.float64)
        return float(np.float32(case["a"])) * x + y
    # v -> SLOPE * v + (1 - SLOPE) moves v towards 1 and leaves SLOPE of the distance.
    return 1.0 + (x - 1.0) * float(SLOPE ** case["iters"])
