"""Reference of ``gqa_decode``: one query head at a time, against the KV head that its group shares."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from runner.references.kv_quant import attention, fixture

if TYPE_CHECKING:
    from runner.check.case import Case
    from runner.plan.model import Check


def expected(case: Case, check: Check, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Query heads ``rows`` (flat over batch and head) of the output, shape (rows, D)."""
    form = "mha" if "mha" in check.name else "mqa" if "mqa" in check.name else "gqa"
    group = case["QH"] // {"mha": case["QH"], "gqa": case["KVH"], "mqa": 1}[form]
    out = np.empty((len(rows), case["D"]))
    for index, row in enumerate(rows):
        b, head = divmod(int(row), case["QH"])
        q = case.input("q", b, head).astype(np.float64)
        k = case.input(f"{form}_k", b, head // group).astype(np.float64)
        v = case.input(f"{form}_v", b, head // group).astype(np.float64)
        out[index] = attention(q, k, v) if check.name.startswith("softmax") else fixture(q, k, v)
    return out
