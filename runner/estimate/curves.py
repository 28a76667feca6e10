"""How memory grows with the context, and speed with the batch: the points of two plots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from runner.estimate.memory import memory, with_context
from runner.estimate.model import Estimate, Memory
from runner.estimate.times import tpot_s

_LONGEST = 2**21
"""Tokens: beyond any model's context today."""
_MOST = 4096
"""Sequences: the largest batch that is drawn."""
_LEAST = 32
"""Sequences: smaller batches are drawn even where none fits."""
_BEYOND = 1.25
"""The memory curve ends where this share of what may be used is needed."""


@dataclass(frozen=True)
class MemoryPoint:
    context: int
    """Tokens of each sequence, prompt and output together."""
    memory: Memory


@dataclass(frozen=True)
class BatchPoint:
    batch: int
    tokens_per_s: float
    tpot_ms: float
    fits: bool


def memory_at(made: Estimate, context: int) -> Memory:
    """Memory of one GPU where each sequence holds ``context`` tokens, at the estimate's batch."""
    work = with_context(made.work, context)
    return memory(made.architecture, work, made.parallel, made.machine, made.memory.reserve, _share(made))


def over_context(made: Estimate) -> list[MemoryPoint]:
    """Memory at contexts that double, from 128 tokens until the GPU is full and the KV cache holds more than the
    weights, and up to twice the context of the estimate at least."""
    points: list[MemoryPoint] = []
    least = 2 * (made.work.prompt + made.work.output)
    for context in _doubling(128, _LONGEST):
        point = MemoryPoint(context, memory_at(made, context))
        points.append(point)
        full = point.memory.total > _BEYOND * point.memory.available and point.memory.kv > point.memory.weights
        if full and context >= least:
            break
    return points


def over_batch(made: Estimate) -> list[BatchPoint]:
    """Batches that double, up to the first that does not fit, and beside them the estimate's own and the largest that
    fits."""
    own = {made.work.batch, int(made.metrics["max_batch"])} - {0}
    points: list[BatchPoint] = []
    for batch in sorted({*_doubling(1, _MOST), *(batch for batch in own if batch <= _MOST)}):
        work = replace(made.work, batch=batch)
        held = memory(made.architecture, work, made.parallel, made.machine, made.memory.reserve, _share(made))
        tpot = tpot_s(made.architecture, work, made.parallel, made.machine, made.efficiency)
        points.append(BatchPoint(batch, batch / tpot, 1e3 * tpot, held.fits))
        if not held.fits and batch >= max(made.work.batch, _LEAST):
            break
    return points


def _share(made: Estimate) -> float:
    return made.memory.available / made.machine.memory_bytes


def _doubling(first: int, last: int) -> Iterator[int]:
    while first <= last:
        yield first
        first *= 2
