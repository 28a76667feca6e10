"""A model under load: so many requests are kept in flight, and a new one comes as soon as one has ended.

Prefill and decode share the GPU. Where KV space has fewer slots than requests, the others wait for one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from runner.estimate import memory, operators, times
from runner.estimate.model import Architecture, Efficiency, Machine, Parallel, Phase, Work


@dataclass(frozen=True)
class Served:
    """What a request sees on average, seconds."""

    ttft_s: float
    """Waiting for a slot included."""
    tpot_s: float
    waiting_s: float
    """For KV space; 0 where every request has it."""


@dataclass(frozen=True)
class Load:
    """A load with what does not depend on how fast the machine is: slots, FLOPs and bytes."""

    arch: Architecture
    work: Work
    """With as many sequences as run at once."""
    parallel: Parallel
    machine: Machine
    concurrency: int
    """Requests in flight, those that wait included."""
    slots: int
    """Requests whose KV cache fits at their full length."""
    prefill: Phase
    """Of one prompt."""
    decode: Phase
    """A step of the running sequences at their average context."""

    @property
    def queues(self) -> bool:
        return self.concurrency > self.slots

    def served(self, efficiency: Efficiency) -> Served:
        """Times of a request. With B running sequences, N output tokens, step time t and prefill time p:

        * TPOT = t / v + p·(B − 1) / N, with v tokens to a step (1 without speculation): while a request generates its N
          tokens each of the others is replaced once, and its prefill holds the step up.
        * TTFT = fixed time of a request + p·(1 + a·(B − 1)), ``a`` the ``prefills_ahead`` of the efficiency.
        * waiting, where C requests share M < C slots: by Little's law a request takes C / M times as long from arrival
          to end as it holds a slot, so that it waits (C / M − 1)·(TTFT + N·TPOT). That is the steady state; a test that
          ends with its first C requests sees (1 − M / C)·(TTFT + N·TPOT) on average.

        Raises ``ValueError`` where there is no slot at all.
        """
        if not self.slots:
            raise ValueError("not one request fits")
        prefill = times.phase_s(
            self.prefill, self.arch, replace(self.work, batch=1), self.parallel, self.machine, efficiency
        )
        step = times.phase_s(self.decode, self.arch, self.work, self.parallel, self.machine, efficiency)
        others = self.work.batch - 1
        yielded = times.tokens_per_verification(self.work.speculative, self.work.acceptance)
        tpot = step / yielded + prefill * others / self.work.output
        ttft = efficiency.request_us * 1e-6 + prefill * (1 + efficiency.prefills_ahead * others)
        waiting = max(0.0, self.concurrency / self.slots - 1) * (ttft + self.work.output * tpot)
        return Served(ttft + waiting, tpot, waiting)


def load(arch: Architecture, work: Work, parallel: Parallel, machine: Machine, reserve: int, share: float) -> Load:
    """``work.batch`` requests in flight. A request takes a slot for its full length, ``prompt + output`` tokens."""
    slots = memory.max_batch(arch, work, parallel, machine, reserve, share)
    running = replace(work, batch=max(1, min(work.batch, slots)))
    return Load(
        arch=arch,
        work=running,
        parallel=parallel,
        machine=machine,
        concurrency=work.batch,
        slots=slots,
        prefill=operators.prefill(arch, replace(work, batch=1), parallel),
        decode=operators.decode(arch, running, parallel, times.mean_context(work)),
    )
