"""Reference of ``fusion``: RMSNorm of x + residual, the scale of each row, and what its levels round.

The ``…_quant`` checks get the ratio norm / scale as it is before rounding: a level within half of it is the
nearest one, whichever way the device's last bit tips a ratio that lies between two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from runner.check.case import Case
    from runner.plan.model import Check

EPSILON = 1e-5
LEVELS = 127.0


def expected(case: Case, check: Check, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Rows of norm and of the ratios, shape (rows, H), or scales, shape (rows,)."""
    norm = normalised(case, rows)
    scale = np.abs(norm).max(axis=1) / LEVELS
    if check.name.endswith("_norm"):
        return norm
    if check.name.endswith("_scale"):
        return np.asarray(scale)
    unit = scale[:, np.newaxis]
    ratios: npt.NDArray[np.float64] = np.divide(norm, unit, out=np.zeros_like(norm), where=unit != 0)
    return ratios


def normalised(case: Case, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """gamma times x + residual over its root mean square, shape (rows, H)."""
    gamma = case.input("gamma").astype(np.float64)
    norm = np.empty((len(rows), case["H"]))
    for index, row in enumerate(rows):
        added = case.input("x", int(row)).astype(np.float64) + case.input("residual", int(row))
        norm[index] = added / np.sqrt(np.mean(added * added) + EPSILON) * gamma
    return norm
