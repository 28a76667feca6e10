"""Loading a family's NumPy reference and calling it, with a look at what it answers."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from runner.check.case import Case
from runner.check.modules import BadReference, function, optional
from runner.plan.model import Check, Plan

__all__ = ["BadReference", "Expected", "evaluate", "load", "metrics", "row_elements", "rows_total"]

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
        raise _raised(where, error) from error
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


def metrics(plan: Plan, case: Case, check: Check) -> dict[str, float]:
    """What the reference's ``metrics(case, check)`` says of the output; empty where it has no such function.

    Raises ``BadReference`` when it raises, and for an answer that is no dictionary of finite numbers.
    """
    make = optional(plan.reference, "metrics")
    if make is None:
        return {}
    where = f"reference {plan.reference}, metrics of {check.name!r}"
    try:
        answer = make(case, check)
    except (Exception, SystemExit) as error:
        raise _raised(where, error) from error
    if not isinstance(answer, Mapping):
        raise BadReference(f"{where}: returned {type(answer).__name__}, must be a dictionary")
    for name, value in answer.items():
        if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not math.isfinite(value):
            raise BadReference(f"{where}: {name}={value!r}, must be a finite number")
    return {str(name): float(value) for name, value in answer.items()}


def _raised(where: str, error: BaseException) -> BadReference:
    place = traceback.extract_tb(error.__traceback__)[-1]
    return BadReference(f"{where}: {type(error).__name__}: {error} ({place.filename}:{place.lineno})")


def row_elements(plan: Plan, check: Check) -> int:
    """Output elements in one row of ``check``."""
    return math.prod(plan.buffer(check.output).dims[check.row_dims :])


def rows_total(plan: Plan, check: Check) -> int:
    return math.prod(plan.buffer(check.output).dims[: check.row_dims])
