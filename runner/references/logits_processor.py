"""Reference of ``logits_processor``: processed logits with the device's float32 operations, and their nucleus.

The nucleus is what a stable descending sort gives: tokens from the most likely on, of equal logits the lowest id
first, until their probability reaches ``top_p``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from runner.check import generator

if TYPE_CHECKING:
    from runner.check.case import Case
    from runner.plan.model import Check

MASKED = np.float32(-65504.0)
"""What a forbidden token gets: the lowest number of fp16."""


def inputs(case: Case, name: str) -> npt.NDArray[np.int64]:
    """``recent_ids`` or ``bad_ids``, int64, shape (B, count); at least one column, unused when the list is empty.

    A sequence's recent ids are drawn from half as many tokens, so that most occur more than once; its first forbidden
    token is also its first recent one.
    """
    count = max(1, case["recent" if name == "recent_ids" else "bad"])
    if name == "recent_ids":
        return _recent(case, count)
    ids = _drawn(case, name, count, case["V"])
    if case["recent"]:
        ids[:, 0] = _recent(case, case["recent"])[:, 0]
    return ids


def expected(case: Case, check: Check, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Processed logits of sequences ``rows``, shape (rows, V), or one figure of their nucleus, shape (rows,)."""
    processed = [_processed(case, int(row)) for row in rows]
    if check.name.endswith("_processor"):
        return np.array(processed, dtype=np.float64)
    which = ("top_p_cutoff", "top_p_mass", "top_p_kept").index(check.name)
    # The device gets top_p as a float32.
    return np.array([nucleus(row, float(np.float32(case["top_p"])))[which] for row in processed], dtype=np.float64)


def nucleus(logits: npt.NDArray[np.float32], top_p: float) -> tuple[float, float, float]:
    """Smallest logit kept, probability of what is kept, and how many tokens that is."""
    descending = np.sort(logits.astype(np.float64))[::-1]
    upto = np.cumsum(np.exp(descending - descending[0]))
    last = int(np.searchsorted(upto, top_p * upto[-1]))
    return float(descending[last]), float(upto[last] / upto[-1]), float(last + 1)


def _processed(case: Case, row: int) -> npt.NDArray[np.float32]:
    values = case.input("logits", row) * np.float32(1.0 / case["temperature"])
    if case["recent"]:
        recent = np.unique(case.input("recent_ids", row))
        penalty, old = np.float32(case["penalty"]), values[recent]
        values[recent] = np.where(old > 0, old / penalty, old * penalty)
    if case["bad"]:
        values[case.input("bad_ids", row)] = MASKED
    return values


def _recent(case: Case, count: int) -> npt.NDArray[np.int64]:
    pool = _drawn(case, "recent_pool", (count + 1) // 2, case["V"])
    chosen = _drawn(case, "recent_ids", count, pool.shape[1])
    return np.take_along_axis(pool, chosen, axis=1)


def _drawn(case: Case, name: str, count: int, below: int) -> npt.NDArray[np.int64]:
    """Integers in [0, below), shape (B, count)."""
    key = generator.key(case.seed, name)
    return generator.integers(key, 0, case["B"] * count, 0, below).reshape(case["B"], count)
