"""Reference of ``allocator``: the sum of a block's workspace in every decode step, in whole numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from runner.check.case import Case
    from runner.plan.model import Check

BLOCK_ELEMENTS = 1024


def expected(case: Case, check: Check, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Sums at ``rows`` = step * blocks + block, float64, shape (rows,); the same for every variant."""
    steps, blocks = np.divmod(rows, case["blocks"])
    sums = np.zeros(len(rows))
    for block in np.unique(blocks):
        index = np.arange(block * BLOCK_ELEMENTS, min((block + 1) * BLOCK_ELEMENTS, case["elements"]))
        levels = np.floor(case.input("activations", int(block)).astype(np.float64) * 1024.0)[: len(index)].sum()
        for row in np.flatnonzero(blocks == block):
            sums[row] = levels + ((index + 31 * steps[row]) % 1024).sum()
    return sums
