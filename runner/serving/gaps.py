"""The times between tokens that follow each other in one request, and what was computed meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from runner.serving.served import Served


@dataclass(frozen=True, eq=False)
class Gaps:
    """G of them, the requests in order of arrival and the gaps of each in order of time."""

    seconds: npt.NDArray[np.float64]
    """Shape (G,)."""
    beside_prefill: npt.NDArray[np.bool_]
    """Shape (G,): some pass between the two tokens had tokens of a prompt."""
    starts: npt.NDArray[np.int64]
    """Shape (requests + 1,): request r has gaps ``starts[r]`` to ``starts[r + 1]``."""

    def of(self, requests: Iterable[int]) -> npt.NDArray[np.float64]:
        """Seconds of the gaps of some requests."""
        parts = [self.seconds[self.starts[one] : self.starts[one + 1]] for one in requests]
        return np.concatenate(parts) if parts else np.zeros(0)


def gaps(served: Served) -> Gaps:
    ends = np.array([step.end_s for step in served.steps])
    prefills = np.cumsum([step.prefill > 0 for step in served.steps])
    seconds = [np.diff(one.token_s) for one in served.requests]
    # A token's time is the end of its pass, so that the count of prefills up to it is found exactly.
    beside = [np.diff(prefills[np.searchsorted(ends, one.token_s)]) > 0 for one in served.requests]
    return Gaps(
        seconds=np.concatenate([np.zeros(0), *seconds]),
        beside_prefill=np.concatenate([np.zeros(0, np.bool_), *beside]),
        starts=np.concatenate(([0], np.cumsum([len(one) for one in seconds]))).astype(np.int64),
    )
