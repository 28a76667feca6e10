"""Reference of ``sync``: the decode loop, with the one rounding a step that the device has.

Product and sum of a step fit float64 exactly (30 and at most 53 bits), so rounding the result to float32 is what a
fused multiply-add does, and the tokens, which depend on every bit, are exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from runner.references.arrays import elements

if TYPE_CHECKING:
    from runner.check.case import Case
    from runner.plan.model import Check

KEEP = 1.0 - 1.0 / 64.0
INJECT = 1.0 / 64.0
STRIDE = 7919
"""Step ``s`` takes its token from element ``s * STRIDE mod N``."""


def expected(case: Case, check: Check, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64] | npt.NDArray[np.int64]:
    """The state after all steps (float64) or the tokens (int64) at ``rows``, shape (rows,)."""
    count = case["N"]
    if check.name.endswith("_tokens"):
        chosen = rows * STRIDE % count
        state = elements(case, "initial", chosen, count)
        tokens: npt.NDArray[np.int64] = np.zeros(len(rows), np.int64)
        for step in range(int(rows.max()) + 1 if len(rows) else 0):
            state = advance(state, chosen, step)
            tokens = np.where(rows == step, token(state), tokens)
        return tokens
    state = elements(case, "initial", rows, count)
    for step in range(case["steps"]):
        state = advance(state, rows, step)
    return state.astype(np.float64)


def advance(state: npt.NDArray[np.float32], index: npt.NDArray[np.int64], step: int) -> npt.NDArray[np.float32]:
    """One decode step of the elements ``index``."""
    return (KEEP * state.astype(np.float64) + INJECT * injected(index, step)).astype(np.float32)


def injected(index: npt.NDArray[np.int64], step: int) -> npt.NDArray[np.float64]:
    """The value that step ``step`` mixes into each element: a multiple of 2**-23 in [-1, 1)."""
    bits = index.astype(np.uint32) * np.uint32(0x9E3779B1) + np.uint32(step * 0x85EBCA77 & 0xFFFFFFFF)
    bits = (bits ^ (bits >> np.uint32(16))) * np.uint32(0x7FEB352D)
    bits = (bits ^ (bits >> np.uint32(15))) * np.uint32(0x846CA68B)
    bits ^= bits >> np.uint32(16)
    return ((bits >> np.uint32(8)).astype(np.float64) - 2.0**23) * 2.0**-23


def token(state: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """The token id that a state value stands for, in [0, 32768)."""
    scaled = np.floor(state.astype(np.float64) * 16384.0) + 16384.0
    return np.minimum(scaled, 32767.0).astype(np.int64)
