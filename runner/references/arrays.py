"""What several references need: elements of a one-dimensional input, and quantisation as the kernels do it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from runner.check.case import Case

FLOAT8_MAX = 448.0
"""Largest finite value of e4m3."""
SCATTERED = 1024
"""A sample this much smaller than the array is fetched element by element."""


def elements(case: Case, name: str, rows: npt.NDArray[np.int64], total: int) -> npt.NDArray[np.float32]:
    """Elements ``rows`` of the one-dimensional buffer ``name`` of ``total`` elements, float32."""
    if len(rows) * SCATTERED < total:
        return np.array([case.input(name, int(row)) for row in rows], dtype=np.float32)
    found: npt.NDArray[np.float32] = case.input(name)[rows]
    return found


def scale_of(values: npt.NDArray[np.float32], levels: float) -> npt.NDArray[np.float32]:
    """Largest magnitude along the last axis over ``levels``, float32, that axis kept with size 1."""
    largest = np.asarray(np.max(np.abs(values), axis=-1, keepdims=True), dtype=np.float32)
    return np.asarray(largest / np.float32(levels), dtype=np.float32)


def to_levels(
    values: npt.NDArray[np.float32], scale: npt.NDArray[np.float32], levels: float
) -> npt.NDArray[np.float64]:
    """``values / scale`` in float32, rounded to even and clipped to whole numbers in [-levels, levels].

    Zero where the scale is.
    """
    ratio = np.divide(values, scale, out=np.zeros_like(values), where=scale != 0)
    clipped: npt.NDArray[np.float64] = np.clip(np.rint(ratio), -levels, levels).astype(np.float64)
    return clipped


def through_int(values: npt.NDArray[np.float32], levels: float) -> npt.NDArray[np.float64]:
    """``values`` quantised symmetrically with one scale along the last axis, and back, in float64."""
    scale = scale_of(values, levels)
    return to_levels(values, scale, levels) * scale.astype(np.float64)


def through_groups(values: npt.NDArray[np.float32], levels: float, group: int) -> npt.NDArray[np.float64]:
    """Rows (rows, depth) quantised symmetrically with one scale for each ``group`` of a row, and back, in float64. The
    last group of a row may be short."""
    rows, depth = values.shape
    group = min(group, depth)
    padded = np.zeros((rows, -(-depth // group) * group), dtype=np.float32)
    padded[:, :depth] = values
    whole = through_int(padded.reshape(rows, -1, group), levels).reshape(rows, -1)
    found: npt.NDArray[np.float64] = whole[:, :depth]
    return found


def through_half(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """``values`` rounded to fp16 and back, in float64."""
    return values.astype(np.float16).astype(np.float64)


def through_float8(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """``values`` in e4m3 with one scale for all of them (largest magnitude over 448), and back, in float64."""
    scale = scale_of(values.reshape(1, -1), FLOAT8_MAX)[0, 0]
    if scale == 0:
        return np.zeros(values.shape)
    # The quotient can exceed 448 by a rounding; the device saturates, ml_dtypes would make it NaN.
    ratio: npt.NDArray[Any] = np.clip(values / scale, np.float32(-FLOAT8_MAX), np.float32(FLOAT8_MAX))
    return ratio.astype(ml_dtypes.float8_e4m3fn).astype(np.float64) * np.float64(scale)
