"""Reference of ``prefix_cache``: what every page of every request must hold, and where its table points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from runner.references.pages import UNTOUCHED, words

if TYPE_CHECKING:
    from runner.check.case import Case
    from runner.plan.model import Check


def expected(case: Case, check: Check, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | npt.NDArray[np.float64]:
    """Rows of a pool (page, plane, offset), of the table (request) or of the probe (request, page)."""
    if check.name in ("prefix_alias_table", "prefix_table_update"):
        return table(case, hits_only=check.name == "prefix_table_update")[rows]
    if check.name == "prefix_alias_probe":
        places = (divmod(int(row), case["prefix_pages"]) for row in rows)
        return np.array([token(case, b, p * case["page"], 0)[0, 0] for b, p in places], dtype=np.float64)
    skipped = case["hit_pages"] if check.name == "prefix_alias_cache" else 0
    return pool_rows(case, rows, skipped)


def pool_rows(case: Case, rows: npt.NDArray[np.int64], skipped: int) -> npt.NDArray[np.int64]:
    """Words of a pool without the first ``skipped`` pages of each request, shape (rows, H, D).

    Slots past the end of a prefix are untouched, and so is a pool in which no request has a page.
    """
    page, held = case["page"], case["prefix_pages"] - skipped
    out = np.full((len(rows), case["H"], case["D"]), UNTOUCHED, dtype=np.int64)
    for i, row in enumerate(rows if held > 0 else ()):
        slot, rest = divmod(int(row), 2 * page)
        plane, offset = divmod(rest, page)
        b, p = divmod(slot, held)
        t = (p + skipped) * page + offset
        if t < case["prefix"]:
            out[i] = words(token(case, b, t, plane))
    return out


def token(case: Case, b: int, t: int, plane: int) -> npt.NDArray[np.float32]:
    """K (plane 0) or V (1) of token t of request b, shape (H, D): the group's where it is cached."""
    p, offset = divmod(t, case["page"])
    if p < case["hit_pages"]:
        found: npt.NDArray[np.float32] = case.input("cached", b // case["share"] * case["hit_pages"] + p, plane, offset)
    else:
        found = case.input("own", b, t, plane)
    return found


def table(case: Case, hits_only: bool) -> npt.NDArray[np.int64]:
    """Page numbers of every request, shape (B, prefix_pages): cached pages first, then the pool of misses."""
    batch, pages, hits = case["B"], case["prefix_pages"], case["hit_pages"]
    found = np.full((batch, pages), UNTOUCHED, dtype=np.int64)
    for b in range(batch):
        found[b, :hits] = b // case["share"] * hits + np.arange(hits)
        if not hits_only:
            found[b, hits:] = case["cached_pages"] + b * (pages - hits) + np.arange(pages - hits)
    return found
