"""Reference of ``paged_kv_decode``: where a token is stored changes nothing, so one head at a time, pages ignored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from runner.references.kv_quant import attention
from runner.references.pages import shuffled

if TYPE_CHECKING:
    from runner.check.case import Case
    from runner.plan.model import Check


def inputs(case: Case, name: str) -> npt.NDArray[np.int64]:
    """A physical page for every logical one, shape (B, table_width): in order, or scattered over the pool."""
    pages = case["pages"]
    order = np.arange(pages) if name == "ordered_table" else shuffled(case, name, pages)
    return order.reshape(case["B"], case["table_width"])


def expected(case: Case, check: Check, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Heads ``rows`` (flat over batch and head) of the output, shape (rows, D)."""
    out = np.empty((len(rows), case["D"]))
    sequences, heads = np.unravel_index(rows, (case["B"], case["H"]))
    for b in np.unique(sequences):  # a token-major sequence holds all its heads: it is fetched once
        all_k, all_v = case.input("k", b), case.input("v", b)
        for index in np.flatnonzero(sequences == b):
            h = heads[index]
            k, v = all_k[:, h].astype(np.float64), all_v[:, h].astype(np.float64)
            if check.name.startswith("softmax"):
                out[index] = attention(case.input("q", b, h).astype(np.float64), k, v)
            else:
                out[index] = (k * v).sum(axis=0) / np.sqrt(case["T"])
    return out
