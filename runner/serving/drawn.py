"""Whole numbers drawn from a seed: the same on every machine and with every version of NumPy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def words(count: int, seed: int, stream: int) -> npt.NDArray[np.uint64]:
    """``count`` words of 64 random bits, shape (count,). Streams 0 … 2**64 - 1 of one seed have nothing in common."""
    # The words of a bit generator are fixed; what a Generator makes of them may change between versions.
    raw: npt.NDArray[np.uint64] = np.random.Philox(key=(stream << 64) | seed).random_raw(count)
    return raw


def integers(count: int, low: int, high: int, seed: int, stream: int) -> npt.NDArray[np.int64]:
    """``count`` numbers from ``low`` to ``high`` inclusive, shape (count,)."""
    return low + (words(count, seed, stream) % np.uint64(high - low + 1)).astype(np.int64)


def fractions(count: int, seed: int, stream: int) -> npt.NDArray[np.float64]:
    """``count`` numbers in [0, 1), multiples of 2**-53, shape (count,)."""
    return (words(count, seed, stream) >> np.uint64(11)).astype(np.float64) * 2.0**-53
