"""Reference of ``chunked_prefill``: the prompt's output and the decoding state, whatever the schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from runner.references.arrays import elements
from runner.references.decoding import updated
from runner.references.host_transfer import mirrored

if TYPE_CHECKING:
    from runner.check.case import Case
    from runner.plan.model import Check


def expected(case: Case, check: Check, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Elements ``rows`` of the prefill's output or of the state after all decode steps, float64, shape (rows,)."""
    if check.name.endswith("_prefill"):
        return mirrored(elements(case, "prompt", rows, case["elements"]), case["prefill_compute"])
    state = elements(case, "initial", rows, case["decodeN"])
    return updated(state, rows, case["decode_steps"] * case["decode_compute"]).astype(np.float64)
