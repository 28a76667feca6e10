"""What happened to a trace: when each request got each token, and what every pass was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from runner.serving.trace import Request

Kind = Literal["prefill", "decode", "mixed"]
"""What a pass computed."""


def kind_of(prefill: int, decode: int) -> Kind:
    """Of a pass with so many tokens of each phase."""
    if prefill and decode:
        return "mixed"
    return "prefill" if prefill else "decode"


@dataclass(frozen=True, eq=False)
class Record:
    """One request. Times are seconds from the first arrival of the trace."""

    request: Request
    started_s: float
    """When the first pass with a token of it began."""
    token_s: npt.NDArray[np.float64]
    """Shape (output,): when the host had each token."""
    tokens: npt.NDArray[np.int32]
    """Shape (output,)."""
    shared: int
    """Tokens that it found computed when it began, all its beginnings together."""
    preempted: int
    """How often it lost its pages."""

    @property
    def ttft_s(self) -> float:
        """Arrival to first token."""
        return float(self.token_s[0]) - self.request.arrival_s

    @property
    def queued_s(self) -> float:
        """Arrival to first pass."""
        return self.started_s - self.request.arrival_s

    @property
    def prefill_s(self) -> float:
        """First pass to first token."""
        return float(self.token_s[0]) - self.started_s

    @property
    def tpot_s(self) -> float | None:
        """Mean time from one token to the next; None where there is one token."""
        count = len(self.token_s) - 1
        return float(self.token_s[-1] - self.token_s[0]) / count if count else None

    @property
    def whole_s(self) -> float:
        """Arrival to last token."""
        return float(self.token_s[-1]) - self.request.arrival_s


@dataclass(frozen=True)
class Step:
    """One pass."""

    start_s: float
    """When the host began to plan it."""
    planned_s: float
    """When the engine was given it."""
    end_s: float
    """When its tokens were there."""
    prefill: int
    """Tokens of prompts, and of what was computed again."""
    decode: int
    """Sequences of which a token was decoded."""
    recomputed: int
    """Of ``prefill``, tokens that had been computed before they were lost."""
    active: int
    """Requests that had a slot."""
    waiting: int
    """Requests that had arrived and had none."""
    left: int
    """Requests that had a slot or waited when it had ended."""

    @property
    def kind(self) -> Kind:
        return kind_of(self.prefill, self.decode)


@dataclass(frozen=True)
class Served:
    """All of a trace. Steps are in order and do not overlap; between them nothing was there to do."""

    requests: tuple[Record, ...]
    """In order of arrival."""
    steps: tuple[Step, ...]

    @property
    def duration_s(self) -> float:
        """First arrival to last token."""
        return self.steps[-1].end_s if self.steps else 0.0
