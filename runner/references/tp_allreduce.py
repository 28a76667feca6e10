"""Reference of ``tp_allreduce``: the sum of what all devices hold, the same on each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from runner.references.arrays import elements
from runner.references.host_transfer import mirrored

if TYPE_CHECKING:
    from runner.check.case import Case
    from runner.plan.model import Check


def expected(case: Case, check: Check, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Elements ``rows`` of what the last call of a step left, float64, shape (rows,). In a decode step a layer has
    computed on what is summed up."""
    name, _, place = check.output.rpartition("_gpu")
    if name == "hidden_next":
        return mirrored(elements(case, f"hidden_state_gpu{place}", rows, case["n"]), case["compute"])
    layers = case["compute"] if check.name.startswith("decode") else 0
    room = case["n"] + case["apart"] * (case["turns"] - 1)
    held = (elements(case, f"partial_gpu{device}", rows + case["last"], room) for device in range(case["devices"]))
    total: npt.NDArray[np.float64] = np.sum([mirrored(values, layers) for values in held], axis=0, dtype=np.float64)
    return total
