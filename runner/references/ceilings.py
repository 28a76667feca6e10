"""Reference of ``ceilings``: the array itself for the copy, sums of it for the read, its own index for the write, and
for the arithmetic what the declared steps add up to; all but the read exact in float32."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from runner.references.arrays import elements

if TYPE_CHECKING:
    from runner.check.case import Case
    from runner.plan.model import Check

PRODUCTS = 256
"""Of a round: ``kProducts`` in ``ceilings.cu``."""
HELD = {"mma": 8 * 4, "wgmma": 64 * 256 // 128}
"""Instruction → sums that a thread holds: 8 tiles of a warp, or its part of a warpgroup's 64 x 256."""


def expected(case: Case, check: Check, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Blocks ``rows`` of the array, shape (rows, segment), for ``copy`` and ``write``; else shape (rows,): sums of
    blocks for ``read``, of threads for the arithmetic."""
    if check.name in ("copy", "read"):
        blocks = np.stack([case.input("source", int(row)) for row in rows]).astype(np.float64)
        return blocks if check.name == "copy" else blocks.sum(axis=1)
    if check.name == "write":
        segment = int(case["segment"])
        return ((rows[:, None] * segment + np.arange(segment)) % 2**24).astype(np.float64)
    if check.name == "fma_fp32":
        # Chain c begins at starts[thread] + c and adds 1 in every step.
        starts = elements(case, "starts", rows, case["fma_blocks"] * 256).astype(np.float64)
        chains = np.arange(int(case["chains"]))
        ends: npt.NDArray[np.float64] = starts[:, None] + chains + int(case["steps"])
        return np.asarray(ends.sum(axis=1))
    instruction, kind = check.name.split("_")
    inner = 32 if kind == "fp8" else 16
    return np.full(len(rows), HELD[instruction] * case["rounds"] * PRODUCTS * inner * 0.5 * 0.5)
