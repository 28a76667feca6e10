"""Reference of ``streams``: every sequence's state after its decode steps, whatever the streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from runner.references.decoding import updated

if TYPE_CHECKING:
    from runner.check.case import Case
    from runner.plan.model import Check


def expected(case: Case, check: Check, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """States at ``rows`` = sequence * N + element, float64, shape (rows,)."""
    sequences, index = np.divmod(rows, case["N"])
    initial = np.empty(len(rows), np.float32)
    for sequence in np.unique(sequences):
        mine = sequences == sequence
        initial[mine] = case.input("initial", int(sequence))[index[mine]]
    return updated(initial, rows, case["steps"] * case["compute"]).astype(np.float64)
