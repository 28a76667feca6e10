"""An engine on paper: it takes so long for each pass, and its tokens say what history they were sampled from."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from runner.serving.arrays import arrays
from runner.serving.batch import StepBatch
from runner.serving.clock import VirtualClock
from runner.serving.drive import run
from runner.serving.pages import PagePool
from runner.serving.prompts import prompt_ids
from runner.serving.scheduler import Scheduler
from runner.serving.served import Served
from runner.serving.trace import Request, Trace, ordered

VOCAB = 1000
PAGES_PER_SLOT = 256


def next_token(history: npt.NDArray[np.int32]) -> int:
    """What a greedy sampler says after these tokens: every one of them counts, and so does its place."""
    return zlib.crc32(history.tobytes()) % VOCAB


@dataclass
class Engine:
    """A pass takes ``fixed_s`` + ``prefill_s`` for each token of a prompt + ``decode_s`` for each decoded one.

    It has a real paged cache, of token ids: what a pass samples comes from what the page table leads to, so that a
    page lost, shared wrongly or never computed gives a wrong token.
    """

    pool: PagePool
    clock: VirtualClock = field(default_factory=VirtualClock)
    fixed_s: float = 5e-3
    prefill_s: float = 1e-4
    decode_s: float = 1e-4
    batches: list[StepBatch] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cache = np.full((self.pool.pages, self.pool.page), -1, np.int32)
        self.table = np.full((self.pool.slots, self.pool.pages_per_slot), -1, np.int32)

    def step(self, batch: StepBatch) -> list[int]:
        self.batches.append(batch)
        flat = arrays(batch, self.pool.pages_per_slot)
        self.table[flat.table_slots] = flat.table_rows
        page = self.table[flat.slot, flat.position // self.pool.page]
        self.cache[page, flat.position % self.pool.page] = flat.ids
        seconds = self.prefill_s * batch.tokens("prefill") + self.decode_s * batch.tokens("decode")
        self.clock.advance(self.fixed_s + seconds)
        return [next_token(self._history(flat.slot[row], flat.position[row])) for row in flat.rows]

    def _history(self, slot: int, position: int) -> npt.NDArray[np.int32]:
        history: npt.NDArray[np.int32] = self.cache[self.table[slot]].reshape(-1)[: position + 1]
        return history


def requests(*lengths: tuple[float, int, int]) -> Trace:
    """A trace of (arrival, prompt, output)."""
    return ordered(Request(0, *one) for one in lengths)


def served(
    trace: Trace,
    policy: str,
    max_tokens: int = 256,
    pages: int = 4096,
    page: int = 16,
    slots: int = 32,
    share: bool = True,
) -> tuple[Served, Engine]:
    """The trace, served by the engine on paper; all pages are free again."""
    pool = PagePool(pages, page, slots, PAGES_PER_SLOT, share)
    engine = Engine(pool)
    scheduler = Scheduler(policy, max_tokens, pool, lambda request: prompt_ids(request, VOCAB, seed=7))
    found = run(trace, scheduler, engine, engine.clock)
    assert pool.free == pages and scheduler.active == scheduler.waiting == 0
    return found, engine


def expected(request: Request) -> list[int]:
    """The output that the request's own tokens lead to, served alone and without a cache."""
    history: list[int] = prompt_ids(request, VOCAB, seed=7).tolist()
    for _ in range(request.output):
        history.append(next_token(np.array(history, np.int32)))
    return history[request.prompt :]
