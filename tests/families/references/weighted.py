"""The copy itself, of a buffer that comes from the file of the weights where there is one."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from runner.check.case import Case
from runner.plan.model import Check
from runner.weights.stacked import buffer


def inputs(case: Case, name: str) -> npt.NDArray[Any]:
    return buffer(case["file"], name, (case["L"], case["rows"], case["cols"]))


def expected(case: Case, check: Check, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    return case.input("down_weight").astype(np.float64).reshape(-1, case["cols"])[rows]
