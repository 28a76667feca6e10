"""Comparing an output with its reference: which rows, whether they agree, and how far they are apart."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from runner.plan.model import Check
from runner.result.model import CheckResult

RELATIVE_FLOOR = 0.01
"""Smallest denominator of a relative error, as a share of the reference's root mean square: next to a zero of
the reference any error would be infinite."""

MAX_SAMPLED = 4096
"""Most rows of a sample: each is a read of its own."""

POISON = 0xFF
"""Every byte of an output before a checked step: NaN as a float, -1 as an integer."""


def choose_rows(total: int, row_cost: int, budget_elements: int, seed: int) -> npt.NDArray[np.int64]:
    """Rows to compare, ascending: all of them when ``total * row_cost`` elements fit the budget.

    Otherwise a seeded sample as large as the budget (and ``MAX_SAMPLED``) allows, at least 2: the first and
    the last row are always in it.
    """
    if total <= 2 or total * row_cost <= budget_elements:
        return np.arange(total, dtype=np.int64)
    inner = max(0, min(total, MAX_SAMPLED, budget_elements // row_cost) - 2)
    chosen = np.random.default_rng(seed).choice(total - 2, size=inner, replace=False, shuffle=False)
    return np.concatenate(([0], np.sort(chosen.astype(np.int64)) + 1, [total - 1])).astype(np.int64)


def compare(
    check: Check,
    out: npt.NDArray[Any],
    ref: npt.NDArray[Any],
    rows: npt.NDArray[np.int64] | None = None,
    dims: tuple[int, ...] = (),
) -> CheckResult:
    """Compares ``out`` (device dtype) with ``ref`` (float64 or int64), both of shape ``(rows, *row)``.

    ``rows`` are the flat row indices and ``dims`` the whole output's dimensions: with them the message names
    the element. NaN and infinity fail wherever they are, and so does an all-zero output unless zero is right.
    """
    if out.shape != ref.shape:
        raise ValueError(f"check {check.name!r}: output of shape {out.shape}, reference of shape {ref.shape}")
    where = _Where(check, rows if rows is not None else np.arange(len(out), dtype=np.int64), dims)
    result = CheckResult(check.name, True, rows_checked=len(out), rows_total=where.total)
    if out.size == 0:
        return result
    got = _comparable(out, check.exact)
    if got.dtype.kind == "f" and not np.isfinite(got).all():
        return _failed(result, _not_finite(out, got, ref, where))
    wrong: npt.NDArray[np.bool_]
    if check.exact:
        wrong = got != ref
        worst = int(np.argmax(wrong))
        allowed = ""
    else:
        error = np.abs(got - ref)
        tolerance = check.atol + check.rtol * np.abs(ref)
        wrong = error > tolerance
        worst = int(np.argmax(error - tolerance))
        allowed = f" (error {error.flat[worst]:.3g}, allowed {tolerance.flat[worst]:.3g})"
        result.max_abs_err, result.max_rel_err, result.l2_err = errors(got, ref)
    if wrong.any():
        count = int(np.count_nonzero(wrong))
        message = f"{count} of {wrong.size} elements wrong, {where(worst)}: {_pair(got, ref, worst)}{allowed}"
        never = _poisoned(out) & wrong.reshape(len(out), -1).all(axis=1)
        if never.any():
            message = f"{_never(never, where)}; {message}"
        return _failed(result, message)
    if not check.zero_ok and not got.any() and ref.any():
        return _failed(result, f"the output is all zero, expected {_number(np.abs(ref).max())} at most")
    return result


def errors(got: npt.NDArray[Any], ref: npt.NDArray[Any]) -> tuple[float, float, float | None]:
    """Largest absolute, largest relative and relative L2 error of finite arrays; L2 is None against zero."""
    error = np.abs(got - ref)
    norm = float(np.linalg.norm(ref))
    floor = RELATIVE_FLOOR * norm / math.sqrt(ref.size)
    denominator = np.maximum(np.abs(ref), max(floor, float(np.finfo(np.float64).tiny)))
    largest = float(error.max())
    # Against a reference that is zero everywhere there is no relative error; the absolute one says it all.
    relative = float((error / denominator).max()) if norm > 0 else largest
    return largest, relative, float(np.linalg.norm(error)) / norm if norm > 0 else None


def same(
    check: Check,
    first: npt.NDArray[Any],
    second: npt.NDArray[Any],
    rows: npt.NDArray[np.int64] | None = None,
    dims: tuple[int, ...] = (),
) -> str:
    """Empty when two outputs agree, bit for bit (``exact``) or within the tolerance; or what changed."""
    before, after = _comparable(first, check.exact), _comparable(second, check.exact)
    # Written so that a NaN counts as a change.
    within = before == after if check.exact else np.abs(after - before) <= check.atol + check.rtol * np.abs(before)
    changed = ~within
    if not changed.any():
        return ""
    where = _Where(check, rows if rows is not None else np.arange(len(first), dtype=np.int64), dims)
    at = int(np.argmax(changed))
    return (
        "changed between the check before and the check after timing, "
        f"{where(at)}: {_number(before.flat[at])}, then {_number(after.flat[at])}"
    )


class _Where:
    """Names an element of the compared rows by its index in the whole output."""

    def __init__(self, check: Check, rows: npt.NDArray[np.int64], dims: tuple[int, ...]) -> None:
        self._check, self._rows, self._dims = check, rows, dims
        self.total = math.prod(dims[: check.row_dims]) if dims else len(rows)

    def __call__(self, flat: int) -> str:
        if not self._dims:
            return f"{self._check.output} element {flat}"
        size = math.prod(self._dims[self._check.row_dims :])
        element = int(self._rows[flat // size]) * size + flat % size
        index = ", ".join(str(int(i)) for i in np.unravel_index(element, self._dims))
        return f"{self._check.output}[{index}]"

    def row(self, position: int) -> int:
        return int(self._rows[position])


def _comparable(values: npt.NDArray[Any], exact: bool) -> npt.NDArray[Any]:
    """float64, which holds every narrower float exactly; integers of an exact check stay integers."""
    if exact and values.dtype.kind in "iu":
        return values
    return values.astype(np.float64)


def _not_finite(out: npt.NDArray[Any], got: npt.NDArray[Any], ref: npt.NDArray[Any], where: _Where) -> str:
    never = _poisoned(out)
    bad = ~np.isfinite(got)
    at = int(np.argmax(bad))
    message = f"{int(np.count_nonzero(bad))} of {bad.size} elements not finite, {where(at)}: {_pair(got, ref, at)}"
    return f"{_never(never, where)}; {message}" if never.any() else message


def _never(never: npt.NDArray[np.bool_], where: _Where) -> str:
    count = int(np.count_nonzero(never))
    if count == len(never):
        return "the output was never written"
    return f"{count} of {len(never)} rows were never written (row {where.row(int(np.argmax(never)))} first)"


def _poisoned(out: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Per row: every byte is still the poison."""
    raw = np.ascontiguousarray(out).reshape(len(out), -1).view(np.uint8)
    poisoned: npt.NDArray[np.bool_] = (raw == POISON).all(axis=1)
    return poisoned


def _failed(result: CheckResult, message: str) -> CheckResult:
    result.passed = False
    result.message = message
    return result


def _pair(got: npt.NDArray[Any], ref: npt.NDArray[Any], at: int) -> str:
    return f"got {_number(got.flat[at])}, expected {_number(ref.flat[at])}"


def _number(value: Any) -> str:
    return str(int(value)) if isinstance(value, np.integer) else f"{float(value):.8g}"
