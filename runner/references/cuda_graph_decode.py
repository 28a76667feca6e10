"""Reference of ``cuda_graph_decode``: the loop in float32, each operation rounded once, as the device has it.

Tokens depend on every bit of the state, so float64 would not do: it would be right and still disagree wherever two
elements are nearly equal. The sum of squares is one of integers and has no order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from runner.references import rotary

if TYPE_CHECKING:
    from runner.check.case import Case
    from runner.plan.model import Check

Rows = npt.NDArray[np.float32]

UNITS = np.float32(2.0**14)
EPSILON = np.float32(1e-5)
KEEP = np.float32(0.75)
INJECT = np.float32(0.25)
THETA = 10000.0


def inputs(case: Case, name: str) -> npt.NDArray[Any]:
    """``rotation``, shape (H / 2, 2): cosine and sine of pair i's angle, theta ** (-2 i / H), in float32."""
    angles = rotary.frequencies(THETA, case["H"])
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def expected(case: Case, check: Check, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64] | npt.NDArray[np.int64]:
    """Rows of the last state (rows, H), or of every step's maximum (float64) or token (int64), both (rows, steps)."""
    gamma, rotation, steps = case.input("gamma"), case.input("rotation"), case["steps"]
    state = np.stack([case.input("initial", int(row)) for row in rows])
    maximum, token = np.empty((len(rows), steps)), np.empty((len(rows), steps), np.int64)
    for step in range(steps):
        state = advance(state, gamma, np.roll(rotation, -step, axis=0))
        token[:, step] = np.argmax(state, axis=1)  # the lowest index of those that tie
        maximum[:, step] = np.max(state, axis=1)
    if check.name.endswith("_token"):
        return token
    return maximum if check.name.endswith("_max") else state.astype(np.float64)


def advance(state: Rows, gamma: Rows, rotation: Rows) -> Rows:
    """One decode step; ``rotation`` as the pairs of this position meet it."""
    norm = normalised(state, gamma)
    even, odd, cosine, sine = norm[:, 0::2], norm[:, 1::2], rotation[:, 0], rotation[:, 1]
    rotated = np.empty_like(norm)
    rotated[:, 0::2] = even * cosine - odd * sine
    rotated[:, 1::2] = even * sine + odd * cosine
    return KEEP * state + INJECT * rotated


def normalised(state: Rows, gamma: Rows) -> Rows:
    """RMSNorm of each row, its squares taken over multiples of 2**-14."""
    units = np.rint(state * UNITS).astype(np.int64)
    squares = (units * units).sum(axis=1).astype(np.float32)
    mean = squares / (np.float32(state.shape[1]) * UNITS * UNITS)
    inverse: Rows = np.float32(1.0) / np.sqrt(mean + EPSILON)
    return state * inverse[:, np.newaxis] * gamma
