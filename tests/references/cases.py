"""A stand-in for ``runner.check.case.Case``: symbols and whole arrays, given by the test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from runner.check.case import Case
from runner.plan.model import Check


class FakeCase:
    def __init__(self, symbols: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self.symbols = dict(symbols)
        self.arrays = dict(arrays)
        self.seed = 0

    def __getitem__(self, symbol: str) -> Any:
        return self.symbols[symbol]

    def input(self, name: str, *leading: int) -> npt.NDArray[Any]:
        found = np.array(self.arrays[name][leading])
        found.flags.writeable = False
        return found


def case(symbols: Mapping[str, Any], **arrays: npt.NDArray[Any]) -> Case:
    return cast(Case, FakeCase(symbols, arrays))


def check(name: str) -> Check:
    """A check with nothing but its name, which is all a reference looks at."""
    return Check(name=name, output="y", row_dims=1, row_cost=1, atol=0.0, rtol=0.0)


def uniform(seed: int, *shape: int) -> npt.NDArray[np.float32]:
    """float32 in [-1, 1)."""
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def rows(*indices: int) -> npt.NDArray[np.int64]:
    return np.array(indices, dtype=np.int64)
