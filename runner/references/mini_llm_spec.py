"""Reference of ``mini_llm_spec``: that of ``mini_llm``, for however a text was found it is the greedy one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from runner.references import mini_llm
from runner.references.mini_llm import expected

if TYPE_CHECKING:
    from runner.check.case import Case

__all__ = ["expected", "inputs"]


def inputs(case: Case, name: str) -> npt.NDArray[Any]:
    """Tables of a verification, whose tokens lie one sequence after the other.

    ``window_slot`` (B · window,): the sequence of each; ``window_rows`` (B · window,): all of them; ``window_runs``
    (B, 2): each sequence's first token and number of tokens. The others are those of ``mini_llm``.
    """
    batch, window = case["B"], case["window"]
    if name == "window_slot":
        return np.asarray(np.repeat(np.arange(batch), window))
    if name == "window_rows":
        return np.arange(batch * window)
    if name == "window_runs":
        return np.stack([np.arange(batch) * window, np.full(batch, window)], axis=1)
    return mini_llm.inputs(case, name)
