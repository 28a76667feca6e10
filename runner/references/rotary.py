"""Rotary positions: how far each pair of a head's elements turns from one position to the next.

Plain frequencies are those of Su et al. 2021 (RoFormer), theta ** (-2 i / D) for pair i. ``linear`` divides all of them
(Chen et al. 2023); ``llama3`` only the low ones, as ``config.json`` of Llama 3.1 and later asks for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from runner.weights import stacked

if TYPE_CHECKING:
    from runner.check.case import Case

Values = npt.NDArray[np.float64]


def frequencies(theta: float, dim: int) -> Values:
    """Radians a token by pair, (``dim`` / 2,)."""
    found: Values = theta ** (-np.arange(0, dim, 2, dtype=np.float64) / dim)
    return found


def scaled(case: Case) -> Values:
    """``frequencies`` of a decoder as its model scales them: by the factors of its file where that has them, else by
    ``rope`` and what belongs to it."""
    plain = frequencies(case["theta"], case["D"])
    given = stacked.rope_factors(case["file"], len(plain)) if case["file"] else None
    if given is not None:
        return plain / given
    if case["rope"] == "linear":
        return plain / float(case["rope_factor"])
    if case["rope"] == "llama3":
        return llama3(
            plain,
            factor=case["rope_factor"],
            low=case["rope_low_freq_factor"],
            high=case["rope_high_freq_factor"],
            positions=case["rope_original_positions"],
        )
    return plain


def llama3(plain: Values, *, factor: float, low: float, high: float, positions: int) -> Values:
    """Frequencies that turn ``high`` times or more within ``positions`` as they are, those that turn ``low`` times or
    less over ``factor``; between, the mean of both, weighed by how near the turns are to either."""
    turns = positions * plain / (2 * np.pi)
    left = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return left * plain + (1.0 - left) * plain / factor
