"""What the prompts of a trace say: token ids drawn from the seed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from runner.serving.drawn import integers
from runner.serving.trace import Request

_GROUPS = 1 << 32
"""Streams of the seed from here on belong to groups, those below to requests."""


def prompt_ids(request: Request, vocab: int, seed: int) -> npt.NDArray[np.int32]:
    """Ids from 0 to ``vocab`` - 1, shape (request.prompt,). Requests of a group begin with the same ids, as many as
    the shorter ``shared`` of two."""
    shared = integers(request.shared, 0, vocab - 1, seed, _GROUPS + request.group)
    own = integers(request.prompt - request.shared, 0, vocab - 1, seed, request.index)
    return np.concatenate((shared, own)).astype(np.int32)
