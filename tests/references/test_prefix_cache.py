from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from runner.references.prefix_cache import expected
from tests.references.cases import case, check, rows, uniform

B, PREFIX, PAGE, SHARE, H, D = 5, 11, 4, 2, 2, 3
PAGES, GROUPS = 3, 3


class Simulated:
    """The requests served one after another by a dictionary of pages, as a scheduler would."""

    def __init__(self, hits: int) -> None:
        self.hits = hits
        self.cached = uniform(1, max(1, GROUPS * hits), 2, PAGE, H, D)
        self.own = uniform(2, B, PREFIX, 2, H, D)
        symbols = {"B": B, "prefix": PREFIX, "page": PAGE, "share": SHARE, "H": H, "D": D}
        pages = {"prefix_pages": PAGES, "hit_pages": hits, "miss_pages": PAGES - hits, "cached_pages": GROUPS * hits}
        self.case = case({**symbols, **pages}, cached=self.cached, own=self.own)
        self.known: dict[tuple[int, int], int] = {}
        for group in range(GROUPS):
            for p in range(hits):
                self.known[group, p] = len(self.known)

    def tables(self) -> npt.NDArray[np.int64]:
        fresh = len(self.known)
        found = np.zeros((B, PAGES), dtype=np.int64)
        for b in range(B):
            for p in range(PAGES):
                found[b, p] = self.known.get((b // SHARE, p), -1)
                if found[b, p] < 0:
                    found[b, p], fresh = fresh, fresh + 1
        return found

    def page(self, b: int, p: int) -> npt.NDArray[np.int32]:
        """The words of page p of request b, shape (2, PAGE, H, D); -1 where there is no token."""
        if (b // SHARE, p) in self.known:
            shared: npt.NDArray[np.int32] = self.cached[self.known[b // SHARE, p]].view(np.int32)
            return shared
        words = np.full((2, PAGE, H, D), -1, dtype=np.int32)
        tokens = self.own[b, p * PAGE : (p + 1) * PAGE].view(np.int32)
        words[:, : len(tokens)] = tokens.transpose(1, 0, 2, 3)
        return words


def every(count: int) -> npt.NDArray[np.int64]:
    return rows(*range(count))


@pytest.mark.parametrize("hits", [0, 1, 2])
@pytest.mark.parametrize("name", ["no_cache", "prefix_copy"])
def test_the_whole_pool_is_the_same_with_and_without_the_cache(hits: int, name: str) -> None:
    served = Simulated(hits)
    want = np.stack([served.page(b, p) for b in range(B) for p in range(PAGES)])
    got = expected(served.case, check(name), every(B * PAGES * 2 * PAGE))
    assert np.array_equal(got, want.reshape(-1, H, D))


@pytest.mark.parametrize("hits", [0, 1, 2])
def test_aliased_pages_are_those_the_table_names(hits: int) -> None:
    served = Simulated(hits)
    tables = expected(served.case, check("prefix_alias_table"), every(B))
    assert np.array_equal(tables, served.tables())
    misses = PAGES - hits
    pool = expected(served.case, check("prefix_alias_cache"), every(B * misses * 2 * PAGE))
    probes = expected(served.case, check("prefix_alias_probe"), every(B * PAGES)).reshape(B, PAGES)
    physical = np.concatenate(
        [served.cached[: GROUPS * hits].view(np.int32), pool.reshape(-1, 2, PAGE, H, D).astype(np.int32)]
    )
    for b in range(B):
        for p in range(PAGES):
            found = physical[tables[b, p]]
            assert np.array_equal(found, served.page(b, p))
            assert probes[b, p] == np.float64(found[0, 0].view(np.float32)[0, 0])


def test_a_table_update_leaves_misses_alone() -> None:
    served = Simulated(2)
    got = expected(served.case, check("prefix_table_update"), every(B))
    assert np.array_equal(got[:, :2], served.tables()[:, :2])
    assert (got[:, 2:] == -1).all()


def test_nothing_missed_leaves_the_pool_untouched() -> None:
    symbols: dict[str, Any] = {"B": 2, "prefix": 4, "page": 4, "share": 1, "H": H, "D": D}
    pages = {"prefix_pages": 1, "hit_pages": 1, "miss_pages": 0, "cached_pages": 2}
    full = case({**symbols, **pages}, cached=uniform(1, 2, 2, 4, H, D), own=uniform(2, 2, 4, 2, H, D))
    assert (expected(full, check("prefix_alias_cache"), every(8)) == -1).all()


def test_only_the_rows_asked_for_in_their_order() -> None:
    served = Simulated(1)
    for name in ("no_cache", "prefix_alias_cache", "prefix_alias_table", "prefix_alias_probe"):
        whole = expected(served.case, check(name), every(5))
        assert np.array_equal(expected(served.case, check(name), rows(4, 1)), whole[[4, 1]])
