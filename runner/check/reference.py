"""Loading a family's NumPy reference and calling it, with a look at what it answers."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from runner.check.case import Case
from runner.check.modules import BadReference, function
from runner.plan.model import Check, Plan

__all__ = ["BadReference", "Expected", "evaluate", "load", "row_elements", "rows_total"]

Expected = Callable[[Case, Check, npt.NDArray[np.int64]], npt.NDArray[Any]]


def load(reference: str) -> Expected:
    """``expected`` of a dotted module, or of the ``.py`` at an absolute path. Raises ``BadReference``."""
    found: Expected = function(reference, "expected", "expected(case, check, rows)")
    return found


def evaluate(expected: Expected, plan: Plan, case: Case, check: Check, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Calls ``expected`` for ``rows`` (flat indices over the output's first ``row_dims`` dimensions).

    Returns shape ``(len(rows), *output.dims[row_dims:])``: float64, or int64 from a reference in integers.
    Raises ``BadReference`` when it raises, and for another shape, another dtype (a float32 answer is not a truth),
    or values that are not finite.
    """
    output = plan.buffer(check.output)
    shape = (len(rows), *output.dims[check.row_dims :])
    where = f"reference {plan.reference}, check {check.name!r}"
    try:
        answer = expected(case, check, rows)
    except (Exception, SystemExit) as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise BadReference(f"{where}: {type(error).__name__}: {error} ({place.filename}:{place.lineno})") from error
    if not isinstance(answer, np.ndarray):
        raise BadReference(f"{where}: returned {type(answer).__name__}, must be a NumPy array")
    if answer.shape != shape:
        raise BadReference(f"{where}: returned shape {answer.shape}, must be {shape}")
    if answer.dtype.kind in "iu":
        return answer.astype(np.int64, copy=False)
    if answer.dtype != np.float64:
        raise BadReference(f"{where}: returned {answer.dtype}, must be float64 (or an integer type)")
    if not np.isfinite(answer).all():
        at = np.unravel_index(int(np.argmin(np.isfinite(answer))), shape)
        index = [int(i) for i in at[1:]]
        raise BadReference(f"{where}: {answer[at]} in row {rows[at[0]]} at {index}; must be finite")
    return answer


def row_elements(plan: Plan, check: Check) -> int:
    """Output elements in one row of ``check``."""
    return math.prod(plan.buffer(check.output).dims[check.row_dims :])


def rows_total(plan: Plan, check: Check) -> int:
    return math.prod(plan.buffer(check.output).dims[: check.row_dims])
