"""Reference of ``ceilings``: the array itself for the copy, a sum for every block of the read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from runner.check.case import Case
    from runner.plan.model import Check


def expected(case: Case, check: Check, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Blocks ``rows``: shape (rows, segment) for ``copy``, (rows,) for ``read``."""
    blocks = np.stack([case.input("source", int(row)) for row in rows]).astype(np.float64)
    return blocks if check.name == "copy" else blocks.sum(axis=1)
