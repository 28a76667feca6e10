"""Verifying a plan's variants: rows are chosen, read, compared, and compared again after timing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from runner.check import reference
from runner.check.case import Case, Read
from runner.check.compare import choose_rows, compare, errors, same
from runner.check.generator import key
from runner.plan.model import Check, Plan
from runner.result.model import CheckResult

BUDGET_ELEMENTS = 1 << 22
"""Elements a check's reference may touch, inputs and output: about 0.2 s of NumPy."""


class Verifier:
    """Checks the variants of one plan.

    The first ``verify`` of a variant is the check before timing, each later one also compares with the first, but for
    checks of what varies.
    References are computed once, unless they follow from an output. Memory stays within some ``BUDGET_ELEMENTS`` a
    check.
    """

    def __init__(self, plan: Plan, budget_elements: int = BUDGET_ELEMENTS) -> None:
        self._plan = plan
        self._budget = budget_elements
        self._case = Case(plan)
        self._expected: reference.Expected | None = None
        self._references: dict[tuple[str, bytes], npt.NDArray[Any]] = {}
        self._outputs: dict[tuple[str, str], npt.NDArray[Any]] = {}

    @property
    def case(self) -> Case:
        """What the references see."""
        return self._case

    def rows(self, check: Check) -> npt.NDArray[np.int64]:
        """Flat indices of the rows compared, ascending. The same for checks of equal shape and cost, so that
        the variants of a family share inputs and can be compared with each other."""
        cost = max(1, check.row_cost, reference.row_elements(self._plan, check))
        total = reference.rows_total(self._plan, check)
        return choose_rows(total, cost, self._budget, key(self._plan.seed, "rows"))

    def verify(self, variant: str, read: Read) -> list[CheckResult]:
        """Reads the rows of every check of ``variant`` and compares them. Raises ``BadReference``."""
        self._case.left(read)
        try:
            return [self._verified(variant, check, read) for check in self._plan.variant(variant).checks]
        finally:
            self._case.left(None)

    def _verified(self, variant: str, check: Check, read: Read) -> CheckResult:
        rows, dims = self.rows(check), self._plan.buffer(check.output).dims
        out = self._read(check, rows, read)
        result = compare(check, out, self._reference(check, rows), rows, dims)
        before = self._outputs.setdefault((variant, check.name), out)
        if result.passed and before is not out and not check.varies:
            result.message = same(check, before, out, rows, dims)
            result.passed = not result.message
        return result

    def metrics(self, variant: str, read: Read) -> dict[str, float]:
        """What the reference says of the outputs of ``variant`` beyond right and wrong: the cost of a format, say.

        Empty where the reference has no ``metrics``. Raises ``BadReference``.
        """
        self._case.left(read)
        try:
            found: dict[str, float] = {}
            for check in self._plan.variant(variant).checks:
                found |= reference.metrics(self._plan, self._case, check)
            return found
        finally:
            self._case.left(None)

    def drift(self, variant: str) -> dict[str, float]:
        """How far the verified output of ``variant`` is from the reference of the check its plan names.

        ``drift_max_abs``, ``drift_max_rel``, ``drift_l2`` over the rows of the variant's first check; empty when
        none is named, and when the output is not finite. Raises ``RuntimeError`` before ``verify``.
        """
        planned = self._plan.variant(variant)
        if not planned.drift:
            return {}
        own = planned.checks[0]
        if (variant, own.name) not in self._outputs:
            raise RuntimeError(f"drift of {variant!r} asked for before its output was verified")
        out = self._outputs[variant, own.name].astype(np.float64)
        if not np.isfinite(out).all() or out.size == 0:
            return {}
        # The other variant may not be part of this plan: its reference is asked for by name, at our rows.
        other = replace(own, name=planned.drift)
        largest, relative, l2 = errors(out, self._reference(other, self.rows(own)))
        found = {"drift_max_abs": largest, "drift_max_rel": relative}
        return found if l2 is None else {**found, "drift_l2": l2}

    def _reference(self, check: Check, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        slot = (check.name, rows.tobytes())
        if slot in self._references:
            return self._references[slot]
        if self._expected is None:
            self._expected = reference.load(self._plan.reference)
        seen = self._case.outputs_seen
        found = reference.evaluate(self._expected, self._plan, self._case, check, rows)
        if self._case.outputs_seen == seen:
            self._references[slot] = found
        return found

    def _read(self, check: Check, rows: npt.NDArray[np.int64], read: Read) -> npt.NDArray[Any]:
        """The chosen rows, shape ``(len(rows), *row)``: one read for each run of adjacent rows."""
        dims = self._plan.buffer(check.output).dims[check.row_dims :]
        size = reference.row_elements(self._plan, check)
        if len(rows) == 0 or size == 0:
            return np.empty((len(rows), *dims))
        runs = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
        parts = [read(check.output, int(run[0]) * size, len(run) * size) for run in runs]
        return np.concatenate(parts).reshape(len(rows), *dims)
