"""Reference of ``sampler``: argmax, softmax sum and top 4 of each row of logits, ties to the lowest index."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from runner.check.case import Case
    from runner.plan.model import Check

TOP = 4


def expected(case: Case, check: Check, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64] | npt.NDArray[np.int64]:
    """What the check is named after, for sequences ``rows``: shape (rows,), or (rows, 4) for the top 4."""
    found = [_row(case.input("logits", int(row)), check.name, case["temperature"]) for row in rows]
    if check.name.endswith("_index"):
        return np.array(found, dtype=np.int64)
    return np.array(found, dtype=np.float64)


def _row(logits: npt.NDArray[np.float32], name: str, temperature: float) -> npt.NDArray[np.generic]:
    if name == "softmax_sum":
        scaled = (logits.astype(np.float64) - logits.max()) / temperature
        return np.asarray(np.exp(scaled).sum())
    # A stable sort of the negated row leaves equal logits in the order of their indices.
    chosen = np.argsort(-logits, kind="stable")[:TOP] if name.startswith("top4") else np.asarray(np.argmax(logits))
    return np.asarray(chosen if name.endswith("_index") else logits[chosen])
