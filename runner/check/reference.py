"""Loading a family's NumPy reference and calling it, with a look at what it answers."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import math
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from runner.check.case import Case
from runner.plan.model import Check, Plan

Expected = Callable[[Case, Check, npt.NDArray[np.int64]], npt.NDArray[Any]]


class BadReference(ValueError):
    """The reference cannot be loaded, or what it answers cannot be the truth."""


def load(reference: str) -> Expected:
    """``expected`` of a dotted module, or of the ``.py`` at an absolute path. Raises ``BadReference``."""
    module = _load_file(Path(reference)) if reference.endswith(".py") else _load_module(reference)
    expected = getattr(module, "expected", None)
    if not callable(expected):
        raise BadReference(f"reference {reference} has no function expected(case, check, rows)")
    found: Expected = expected
    return found


def evaluate(expected: Expected, plan: Plan, case: Case, check: Check, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Calls ``expected`` for ``rows`` (flat indices over the output's first ``row_dims`` dimensions).

    Returns shape ``(len(rows), *output.dims[row_dims:])``: float64, or int64 from a reference in integers.
    Raises ``BadReference`` for another shape, another dtype (a float32 answer is not a truth), or values
    that are not finite.
    """
    output = plan.buffer(check.output)
    shape = (len(rows), *output.dims[check.row_dims :])
    answer = expected(case, check, rows)
    where = f"reference {plan.reference}, check {check.name!r}"
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


def _load_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise BadReference(f"reference module {name!r} does not exist") from error
        raise BadReference(f"reference module {name!r} needs {error.name!r}, which is not installed") from error
    except Exception as error:
        raise BadReference(f"reference module {name!r} fails while loading: {error!r}") from error


def _load_file(path: Path) -> ModuleType:
    if not path.is_absolute() or not path.is_file():
        raise BadReference(f"reference {path} must be the absolute path of an existing .py file")
    # Two families may both bring a reference.py: the name holds the path's hash.
    name = f"runner_reference_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadReference(f"reference {path} cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses in the file look their module up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise BadReference(f"reference {path} fails while loading: {error!r}") from error
    return module
