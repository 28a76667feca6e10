"""Reference of ``kv_quant``: one head at a time, with K and V as each variant stores them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from runner.references.arrays import through_float8, through_half, through_int

if TYPE_CHECKING:
    from runner.check.case import Case
    from runner.plan.model import Check


def expected(case: Case, check: Check, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Heads ``rows`` (flat over batch and head) of the output, shape (rows, D)."""
    out = np.empty((len(rows), case["D"]))
    for index, row in enumerate(rows):
        b, h = divmod(int(row), case["H"])
        q = case.input("q", b, h).astype(np.float64)
        k = stored(case.input("k", b, h), check.name)
        v = stored(case.input("v", b, h), check.name)
        out[index] = attention(q, k, v) if check.name.startswith("softmax") else fixture(q, k, v)
    return out


def stored(values: npt.NDArray[np.float32], check: str) -> npt.NDArray[np.float64]:
    """K or V of one head, shape (T, D), as the variant of ``check`` reads it."""
    if "fp16" in check:
        return through_half(values)
    if "fp8" in check:
        return through_float8(values)
    if "q8_head" in check:
        return through_int(values.reshape(1, -1), 127.0).reshape(values.shape)
    if "q8" in check:
        return through_int(values, 127.0)
    return values.astype(np.float64)


def fixture(
    q: npt.NDArray[np.float64], k: npt.NDArray[np.float64], v: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """1 / sqrt(T D) times the sum over tokens of (q . k) v; q of shape (D,), k and v of shape (T, D)."""
    out: npt.NDArray[np.float64] = (k @ q) @ v / np.sqrt(k.size)
    return out


def attention(
    q: npt.NDArray[np.float64], k: npt.NDArray[np.float64], v: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Softmax attention of one query; shapes as in ``fixture``."""
    scores = k @ q / np.sqrt(len(q))
    weights = np.exp(scores - scores.max())
    out: npt.NDArray[np.float64] = weights @ v / weights.sum()
    return out
