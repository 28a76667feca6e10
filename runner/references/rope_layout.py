"""Reference of ``rope_layout``: pairs of neighbouring elements rotated in float64, and the tables the kernels read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from runner.references import rotary

if TYPE_CHECKING:
    from runner.check.case import Case
    from runner.plan.model import Check


def inputs(case: Case, name: str) -> npt.NDArray[Any]:
    """``frequency``, shape (D / 2, 2): turns a token as a float32 and what that leaves, also as one.
    ``cos_lut`` and ``sin_lut``, shape (T, D / 2): of every position's angles, rounded once to float32."""
    radians = rotary.frequencies(case["theta"], case["D"])
    if name == "frequency":
        turns = radians / (2.0 * np.pi)
        high = turns.astype(np.float32)
        return np.stack([high, (turns - high).astype(np.float32)], axis=1)
    table = np.empty((case["T"], len(radians)), np.float32)
    function = np.cos if name == "cos_lut" else np.sin
    for begin in range(0, len(table), 4096):  # the float64 angles of all positions at once would be twice the table
        positions = np.arange(begin, min(begin + 4096, len(table)), dtype=np.float64)
        table[begin : begin + 4096] = function(positions[:, np.newaxis] * radians)
    return table


def expected(case: Case, check: Check, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Rows (flat over batch, head and token) of the output, shape (rows, D)."""
    heads, tokens = case["H"], case["T"]
    radians = rotary.frequencies(case["theta"], case["D"])
    out = np.empty((len(rows), case["D"]))
    for index, row in enumerate(rows):
        b, h, t = int(row) // (heads * tokens), int(row) // tokens % heads, int(row) % tokens
        pairs = case.input("x", b, t, h).astype(np.float64).reshape(-1, 2)
        turned = (pairs[:, 0] + 1j * pairs[:, 1]) * np.exp(1j * (t * radians))
        out[index, 0::2], out[index, 1::2] = turned.real, turned.imag
    return out
