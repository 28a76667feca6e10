"""Reference of ``kv_cache``: where each layout keeps a token, told from the cache's side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from runner.check import generator
from runner.references.pages import UNTOUCHED, owners, shuffled, words

if TYPE_CHECKING:
    from runner.check.case import Case
    from runner.plan.model import Check


def inputs(case: Case, name: str) -> npt.NDArray[np.int64]:
    """``table``: a physical page for every logical one, shape (B, pages); ``positions``: where each sequence
    appends, shape (B,), the last slot of the first sequence among them."""
    batch = case["B"]
    if name == "table":
        return shuffled(case, name, case["pages"]).reshape(batch, case["table_width"])
    positions = generator.integers(generator.key(case.seed, name), 0, batch, 0, case["T"])
    positions[0] = case["T"] - 1
    return positions


def expected(case: Case, check: Check, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The words of rows of the cache: a token (plane, b, t) of BSHD, (plane, page, offset) of the pool, a head's
    token (plane, b, h, t) of BHSD; or an appended token (plane, b)."""
    heads, dim = case["H"], case["D"]
    if check.name.startswith("append"):
        return token_rows(case, rows, ("k_token", "v_token"), (case["B"],), (heads, dim))
    if check.name == "BSHD":
        return token_rows(case, rows, ("k", "v"), (case["B"], case["T"]), (heads, dim))
    return head_rows(case, rows) if check.name == "BHSD" else page_rows(case, rows)


def token_rows(
    case: Case,
    rows: npt.NDArray[np.int64],
    sources: tuple[str, str],
    leading: tuple[int, ...],
    row: tuple[int, ...],
) -> npt.NDArray[np.int64]:
    """Rows (plane, *leading) that lie as they came; shape (rows, *row)."""
    out = np.empty((len(rows), *row), dtype=np.int64)
    for i, place in enumerate(np.transpose(np.unravel_index(rows, (2, *leading)))):
        out[i] = words(case.input(sources[int(place[0])], *place[1:]))
    return out


def head_rows(case: Case, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Rows (plane, b, h, t) of BHSD; shape (rows, D)."""
    out = np.empty((len(rows), case["D"]), dtype=np.int64)
    places = np.unravel_index(rows, (2, case["B"], case["H"], case["T"]))
    for i, (plane, b, h, t) in enumerate(np.transpose(places)):
        out[i] = words(case.input("kv"[plane], b, t, h))
    return out


def page_rows(case: Case, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Rows (plane, page, offset) of the pool; slots past the end of a sequence are untouched; shape (rows, H, D)."""
    out = np.full((len(rows), case["H"], case["D"]), UNTOUCHED, dtype=np.int64)
    owner = owners(case.input("table"), case["pages"])
    places = np.unravel_index(rows, (2, case["pages"], case["page"]))
    for i, (plane, page, offset) in enumerate(np.transpose(places)):
        b, logical = divmod(int(owner[page]), case["table_width"])
        t = logical * case["page"] + int(offset)
        if t < case["T"]:
            out[i] = words(case.input("kv"[plane], b, t))
    return out
