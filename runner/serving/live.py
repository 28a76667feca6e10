"""A request between its arrival and its end: what is known of its tokens, and what of them is in the cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from runner.serving.batch import Chunk, Phase
from runner.serving.pages import Ids
from runner.serving.trace import Request

Prompts = Callable[[Request], Ids]
"""The token ids of a request's prompt, int32 of shape (request.prompt,)."""
WAITS = -1
"""No slot."""


@dataclass(eq=False)
class Live:
    request: Request
    ids: Ids
    """Prompt and output, shape (prompt + output,); written once, from the front."""
    seen: Ids
    """The same memory, read-only."""
    length: int
    """Tokens that are known."""
    slot: int = WAITS
    computed: int = 0
    """Of the known ones, those whose K and V are in the cache."""
    prefill: int = 0
    """Tokens that were known when it got its slot: up to here it is in its prefill."""

    @staticmethod
    def of(request: Request, prompts: Prompts) -> Live:
        ids = np.zeros(request.prompt + request.output, np.int32)
        ids[: request.prompt] = prompts(request)
        seen = ids.view()
        seen.flags.writeable = False
        return Live(request, ids, seen, request.prompt)

    @property
    def known(self) -> Ids:
        return self.seen[: self.length]

    @property
    def decoding(self) -> bool:
        return self.computed >= self.prefill

    @property
    def ended(self) -> bool:
        return self.length == len(self.ids)

    def admit(self, slot: int, shared: int) -> None:
        """It has a slot, and its first ``shared`` tokens are there."""
        self.slot, self.computed, self.prefill = slot, shared, self.length

    def preempt(self) -> None:
        self.slot, self.computed = WAITS, 0

    def chunk(self, most: int) -> Chunk:
        """Its next tokens, at most so many."""
        end = min(self.length, self.computed + most)
        ids = self.seen[self.computed : end]
        phase: Phase = "decode" if self.decoding else "prefill"
        return Chunk(self.request.index, self.slot, self.computed, ids, end == self.length, phase)

    def append(self, token: int) -> None:
        self.ids[self.length] = token
        self.length += 1
