"""One pass of the engine: which tokens of which sequences it computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from runner.serving.pages import Ids
from runner.serving.served import Kind, kind_of

Phase = Literal["prefill", "decode"]
"""A sequence that is computed again after it lost its pages is in its prefill, output tokens included."""


class Chunk(NamedTuple):
    """Tokens of one sequence that follow each other. A tuple: a pass has hundreds, made while the engine waits."""

    request: int
    """Its index in the trace."""
    slot: int
    first: int
    """Position of the first of them."""
    ids: Ids
    """Read-only, shape (tokens,)."""
    sampled: bool
    """The last one's logits give the sequence's next token."""
    phase: Phase

    @property
    def end(self) -> int:
        """Position behind the last of them: what the sequence has in the cache after this pass."""
        return self.first + len(self.ids)


@dataclass(frozen=True, eq=False)
class StepBatch:
    """A pass. No slot has two chunks in it."""

    chunks: tuple[Chunk, ...]
    tables: tuple[tuple[int, tuple[int, ...]], ...]
    """(slot, its pages in the order of its tokens) where they differ from what the pass before was given."""
    admitted: tuple[tuple[int, int], ...] = ()
    """(request, its first tokens that are there already, in pages shared with others) of those that begin."""
    preempted: tuple[int, ...] = ()
    """Requests that lost their pages before this pass and wait again."""

    @property
    def rows(self) -> int:
        """Tokens that are sampled."""
        return sum(chunk.sampled for chunk in self.chunks)

    def tokens(self, phase: Phase) -> int:
        return sum(len(chunk.ids) for chunk in self.chunks if chunk.phase == phase)

    @property
    def kind(self) -> Kind:
        return kind_of(self.tokens("prefill"), self.tokens("decode"))
