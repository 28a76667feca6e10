"""Many tests at once: p-values corrected so that the share of false discoveries stays bounded."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def adjusted(p: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """p-values after Benjamini and Hochberg (1995): rejecting those of at most alpha keeps the expected share of
    false ones among the rejected below alpha.

    What ``scipy.stats.false_discovery_control`` gives; importing that costs more than the
    judgement of 10,000 experiments.

    >>> adjusted(np.array([0.01, 0.04, 0.03])).round(3).tolist()
    [0.03, 0.04, 0.04]
    """
    count = p.size
    falling = np.argsort(p)[::-1]
    scaled = p[falling] * count / np.arange(count, 0, -1)
    found = np.empty(count)
    found[falling] = np.minimum(np.minimum.accumulate(scaled), 1.0)
    return found
