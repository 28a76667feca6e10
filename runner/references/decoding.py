"""The decode step of ``cuda_src/common/work.cuh``: updates of a state, each with the one rounding of the device."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

KEEP = 1.0 - 1.0 / 64.0
INJECT = 1.0 / 64.0


def updated(state: npt.NDArray[np.float32], index: npt.NDArray[np.int64], updates: int) -> npt.NDArray[np.float32]:
    """``state`` of the elements ``index`` after updates 0 … ``updates`` - 1: steps × updates of each step.

    Product and sum fit float64 exactly, so rounding the result to float32 is what a fused multiply-add does.
    """
    bits = index.astype(np.uint32) * np.uint32(0x9E3779B1)
    for update in range(updates):
        wide = KEEP * state.astype(np.float64) + INJECT * _injected(bits, update)
        state = wide.astype(np.float32)
    return state


def _injected(element_bits: npt.NDArray[np.uint32], update: int) -> npt.NDArray[np.float64]:
    """The value that an update mixes into each element: a multiple of 2**-23 in [-1, 1)."""
    bits = element_bits + np.uint32(update * 0x85EBCA77 & 0xFFFFFFFF)
    bits = (bits ^ (bits >> np.uint32(16))) * np.uint32(0x7FEB352D)
    bits = (bits ^ (bits >> np.uint32(15))) * np.uint32(0x846CA68B)
    bits ^= bits >> np.uint32(16)
    return ((bits >> np.uint32(8)).astype(np.float64) - 2.0**23) * 2.0**-23
