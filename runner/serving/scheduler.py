"""Which requests share the next pass: first come, first served, by one of three policies."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from runner.config.errors import ConfigError, choose_from
from runner.serving.batch import Chunk, StepBatch
from runner.serving.live import Live, Prompts
from runner.serving.pages import PagePool
from runner.serving.trace import Request

Policy = Literal["static", "monolithic", "chunked"]
POLICIES: tuple[Policy, ...] = get_args(Policy)


class Scheduler:
    """Requests wait until there is a slot and pages for their prompt, none overtaking another. Each then computes its
    prompt and one token a pass. One that needs a page where none is left takes those of the youngest request, which
    waits again and computes all its tokens anew.

    * ``chunked``: every pass has a token of all that decode, and pieces of prompts up to ``max_tokens`` in all.
    * ``monolithic``: prompts are computed whole and before anything else, as many as ``max_tokens`` allows or one
      that is longer; all that decode wait meanwhile.
    * ``static``: like ``monolithic``, but none is admitted until all that were admitted together have ended.

    There are as many slots as the pool has. ``plan`` and ``apply`` alternate.
    """

    def __init__(self, policy: str, max_tokens: int, pool: PagePool, prompts: Prompts) -> None:
        """Raises ``ConfigError`` for another policy, and where a token of every slot does not fit a pass."""
        if policy not in POLICIES:
            raise ConfigError(f"policy={policy}: no such policy; {choose_from(policy, POLICIES)}")
        if max_tokens < pool.slots:
            raise ConfigError(
                f"max_tokens={max_tokens}: must be at least {pool.slots}, one for every sequence of a pass"
            )
        self.pool = pool
        self._policy = policy
        self._max_tokens = max_tokens
        self._prompts = prompts
        self._waiting: deque[Request | Live] = deque()
        """In order of arrival, like ``_running``; all that wait are younger than all that run."""
        self._running: list[Live] = []
        self._admitted: list[tuple[int, int]] = []
        self._preempted: list[int] = []

    @property
    def active(self) -> int:
        """Requests that have a slot."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def check(self, requests: Iterable[Request]) -> None:
        """Raises ``ConfigError`` for the first request that would not fit if it were alone."""
        pool = self.pool
        for request in requests:
            if request.cached > pool.most_tokens:
                raise ConfigError(
                    f"request {request.index}: prompt={request.prompt}, output={request.output}: needs room for "
                    f"{request.cached} tokens; one sequence can have {pool.most_tokens} "
                    f"({min(pool.pages, pool.pages_per_slot)} pages of {pool.page})"
                )

    def largest_step(self, requests: Iterable[Request]) -> int:
        """Tokens that a pass may have with these requests."""
        if self._policy == "chunked":
            return self._max_tokens
        return max(self._max_tokens, max((request.cached for request in requests), default=0))

    def submit(self, request: Request) -> None:
        """It has arrived; those that came earlier have been submitted, and ``check`` has seen it."""
        self._waiting.append(request)

    def plan(self) -> StepBatch | None:
        """The next pass; None when there is nothing to do."""
        chunks = self._mixed() if self._policy == "chunked" else self._whole()
        if not chunks:
            return None
        batch = StepBatch(tuple(chunks), self.pool.changes(), tuple(self._admitted), tuple(self._preempted))
        self._admitted.clear()
        self._preempted.clear()
        return batch

    def apply(self, batch: StepBatch, sampled: Sequence[int] | npt.NDArray[np.int32]) -> None:
        """The pass has been computed; ``sampled`` are its tokens, one for each sampled chunk in order.

        Raises ``ValueError`` where there are more or fewer.
        """
        if len(sampled) != batch.rows:
            raise ValueError(f"the engine sampled {len(sampled)} tokens where the pass asked for {batch.rows}")
        tokens = iter(sampled)
        running = {one.slot: one for one in self._running}
        for chunk in batch.chunks:
            one = running[chunk.slot]
            one.computed = chunk.end
            self.pool.computed(one.slot, one.ids, one.computed)
            if chunk.sampled:
                one.append(int(next(tokens)))
            if one.ended:
                self.pool.close(one.slot)
        self._running = [one for one in self._running if not one.ended]

    def _mixed(self) -> list[Chunk]:
        chunks = self._decodes()
        budget = self._max_tokens - len(chunks)
        for one in self._running:
            if not one.decoding and budget > 0:
                chunks.append(one.chunk(budget))
                budget -= len(chunks[-1].ids)
        while budget > 0 and not self._preempted:
            admitted = self._admit()
            if admitted is None:
                break
            chunks.append(admitted.chunk(budget))
            budget -= len(chunks[-1].ids)
        return chunks

    def _whole(self) -> list[Chunk]:
        if self._policy == "static":
            self._fill()
        chunks: list[Chunk] = []
        budget = self._max_tokens
        for one in self._running:
            if one.decoding:
                continue
            if chunks and one.length - one.computed > budget:
                return chunks
            chunks.append(one.chunk(one.length))
            budget -= len(chunks[-1].ids)
        while self._policy == "monolithic" and self._waiting and (not chunks or self._next().length <= budget):
            admitted = self._admit()
            if admitted is None:
                break
            chunks.append(admitted.chunk(admitted.length))
            budget -= len(chunks[-1].ids)
        return chunks or self._decodes()

    def _fill(self) -> None:
        """A batch of all that wait and fit, where the last one has ended."""
        while not self._running or self._admitted:
            if self._admit() is None:
                break

    def _next(self) -> Live:
        """The one that waits longest; only now it needs its prompt."""
        first = self._waiting[0]
        if isinstance(first, Request):
            first = self._waiting[0] = Live.of(first, self._prompts)
        return first

    def _admit(self) -> Live | None:
        """The one that waits longest gets a slot, where there are pages for it and one more for each that runs:
        otherwise it would soon lose them again."""
        if not self._waiting:
            return None
        one = self._next()
        opened = self.pool.open(one.known, spare=len(self._running))
        if opened is None:
            return None
        self._waiting.popleft()
        one.admit(*opened)
        self._running.append(one)
        self._admitted.append((one.request.index, one.computed))
        return one

    def _decodes(self) -> list[Chunk]:
        """A token of each that decodes and has, or gets, a page for it."""
        chunks: list[Chunk] = []
        for one in tuple(self._running):
            if not one.decoding:
                continue
            while one.slot >= 0 and not self.pool.grow(one.slot, one.length):
                self._preempt()
            if one.slot >= 0:
                chunks.append(one.chunk(1))
        return chunks

    def _preempt(self) -> None:
        youngest = self._running.pop()
        self.pool.close(youngest.slot)
        youngest.preempt()
        self._waiting.appendleft(youngest)
        self._preempted.append(youngest.request.index)
