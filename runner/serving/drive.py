"""The loop of a server: take what has arrived, plan a pass, compute it, hand out its tokens."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from runner.serving.batch import StepBatch
from runner.serving.clock import Clock
from runner.serving.scheduler import Scheduler
from runner.serving.served import Record, Served, Step
from runner.serving.trace import Request, Trace


class Engine(Protocol):
    """What computes a pass, with a cache that keeps K and V from one to the next."""

    def step(self, batch: StepBatch) -> Sequence[int] | npt.NDArray[np.int32]:
        """The tokens sampled from ``batch``, one for each sampled chunk in order; returns when they are there."""
        ...


@dataclass
class _Notes:
    """What is written down of one request while it is served."""

    started_s: float = -1.0
    token_s: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    shared: int = 0
    preempted: int = 0
    reached: int = 0
    """Tokens whose K and V have been computed or found at some time, kept since or not."""


def run(trace: Trace, scheduler: Scheduler, engine: Engine, clock: Clock) -> Served:
    """Serves the whole trace; its first request arrives now. The scheduler is one that has served nothing.

    An arrival is seen when the pass under way has ended; times of a request count from the arrival itself. Raises
    ``ConfigError`` for a request that cannot fit, before anything runs, and ``ValueError`` for an engine that samples
    more or fewer tokens than it was asked for.
    """
    scheduler.check(trace)
    coming = deque(trace)
    notes = [_Notes() for _ in trace]
    steps: list[Step] = []
    origin_s = clock.now()
    while True:
        start_s = clock.now()
        while coming and origin_s + coming[0].arrival_s <= start_s:
            scheduler.submit(coming.popleft())
        batch = scheduler.plan()
        if batch is None:
            if not coming:
                break
            clock.wait_until(origin_s + coming[0].arrival_s)
            continue
        active, waiting = scheduler.active, scheduler.waiting
        planned_s = clock.now()
        sampled = engine.step(batch)
        end_s = clock.now()
        scheduler.apply(batch, sampled)
        recomputed = _note(notes, batch, sampled, start_s - origin_s, end_s - origin_s)
        steps.append(
            Step(
                start_s=start_s - origin_s,
                planned_s=planned_s - origin_s,
                end_s=end_s - origin_s,
                prefill=batch.tokens("prefill"),
                decode=batch.tokens("decode"),
                recomputed=recomputed,
                active=active,
                waiting=waiting,
                left=scheduler.active + scheduler.waiting,
            )
        )
    return Served(tuple(_record(request, one) for request, one in zip(trace, notes, strict=True)), tuple(steps))


def _note(
    notes: Sequence[_Notes],
    batch: StepBatch,
    sampled: Sequence[int] | npt.NDArray[np.int32],
    start_s: float,
    end_s: float,
) -> int:
    """Writes a pass down, and returns the tokens that had been computed before."""
    for request in batch.preempted:
        notes[request].preempted += 1
    for request, shared in batch.admitted:
        notes[request].shared += shared
    recomputed = 0
    tokens = iter(sampled)
    for chunk in batch.chunks:
        one = notes[chunk.request]
        if one.started_s < 0:
            one.started_s = start_s
        end = chunk.end
        if one.reached > chunk.first:
            recomputed += min(end, one.reached) - chunk.first
        one.reached = max(one.reached, end)
        if chunk.sampled:
            one.token_s.append(end_s)
            one.tokens.append(int(next(tokens)))
    return recomputed


def _record(request: Request, one: _Notes) -> Record:
    token_s, tokens = np.array(one.token_s, np.float64), np.array(one.tokens, np.int32)
    return Record(request, one.started_s, token_s, tokens, one.shared, one.preempted)
