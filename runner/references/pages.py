"""What the references of paged caches share: page tables in the order of a pool that has been in use for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from runner.check import generator

if TYPE_CHECKING:
    from runner.check.case import Case

UNTOUCHED = -1
"""A 32-bit word that nothing has written: outputs are all ones before a checked step."""


def shuffled(case: Case, name: str, count: int) -> npt.NDArray[np.int64]:
    """0 … count - 1 in an order that follows from the seed and the name."""
    order = generator.integers(generator.key(case.seed, name), 0, count, 0, 1 << 32)
    found: npt.NDArray[np.int64] = np.argsort(order, kind="stable")
    return found


def owners(table: npt.NDArray[np.int64], pages: int) -> npt.NDArray[np.int64]:
    """For each of ``pages`` physical pages its flat place in ``table``, -1 where no entry names it; shape (pages,)."""
    found = np.full(pages, -1, dtype=np.int64)
    found[table.ravel()] = np.arange(table.size)
    return found


def words(values: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """The bits of float32 values as signed 32-bit words, in int64; same shape."""
    return np.ascontiguousarray(values).view(np.int32).astype(np.int64)
