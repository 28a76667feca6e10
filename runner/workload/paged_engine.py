"""The decoder as the engine of a server: passes over tokens of any sequences, with a cache in pages."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from runner.backend.base import Graph
from runner.serving.arrays import Int32, StepArrays, arrays, runs
from runner.serving.batch import StepBatch
from runner.workload.base import Context
from runner.workload.capture import captured
from runner.workload.declared import BoundLaunch
from runner.workload.decoder import Choice, Decoder, Pass, Step

KEPT = 128
"""Kinds of passes, by their numbers of tokens and runs, whose launches are kept; making them takes as long as a short
pass."""
UNWRITTEN = Choice(last=-1)
"""The host keeps the texts."""
Launches = tuple[BoundLaunch, ...]
Key = TypeVar("Key")


class PagedEngine:
    """Buffers are those of ``conf/kernel/mini_llm_serve.yaml``. What a pass reads is written from page-locked memory
    before it, and its tokens are read back, so that one ends before the next begins.

    A pass of single tokens, one of each sequence, is replayed as a graph from the second of its size on.
    """

    def __init__(self, context: Context, decoder: Decoder) -> None:
        self._context = context
        self._decoder = decoder
        self._stream = context.streams[0]
        size = decoder.size
        tokens, slots, self._slot_pages = size("prompt_tokens"), size("B"), size("slot_pages")
        self._run_tokens = size("run_tokens")
        self._staged = {
            "prompt_ids": self._page_locked(tokens),
            "prompt_slot": self._page_locked(tokens),
            "prompt_position": self._page_locked(tokens),
            "prompt_last": self._page_locked(slots),
            "prompt_runs": self._page_locked(size("runs"), 2),
        }
        self._table = self._page_locked(slots, self._slot_pages)
        self._sampled = self._page_locked(slots)
        self._bodies: OrderedDict[tuple[int, int], Launches] = OrderedDict()
        """(tokens, runs) of a pass → its launches up to the last layer."""
        self._heads: OrderedDict[int, Launches] = OrderedDict()
        """Sampled tokens → the launches that choose the next ones."""
        self._graphs: dict[int, Graph | None] = {}
        """Sequences of which a token is decoded → the pass as a graph, or None where there has been one so far."""

    def _page_locked(self, *shape: int) -> Int32:
        return self._context.devices[0].page_locked(shape, np.int32)

    def step(self, batch: StepBatch) -> npt.NDArray[np.int32]:
        """The tokens sampled, as ``serving.drive.Engine`` has it."""
        flat = arrays(batch, self._slot_pages)
        single = len(flat.ids) == len(batch.chunks)
        pieces = np.empty((0, 2), np.int32) if single else runs(batch, self._run_tokens)
        with self._context.ranges(batch.kind):
            self._write(flat, pieces)
            if single and batch.rows == len(flat.ids):
                self._replay(batch.rows)
            else:
                self._enqueue(len(flat.ids), len(pieces), batch.rows)
            sampled = self._sampled[: batch.rows]
            if batch.rows:
                self._stream.read(sampled, self._context.buffers["ids"])
            self._stream.synchronize()
        return sampled.copy()

    def _write(self, flat: StepArrays, pieces: Int32) -> None:
        for name, values in (
            ("prompt_ids", flat.ids),
            ("prompt_slot", flat.slot),
            ("prompt_position", flat.position),
            ("prompt_last", flat.rows),
            ("prompt_runs", pieces),
        ):
            if len(values):
                staged = self._staged[name][: len(values)]
                staged[...] = values
                self._stream.write(self._context.buffers[name], staged)
        if len(flat.table_slots):
            self._table[flat.table_slots] = flat.table_rows
            # In one copy; rows between those that changed are written as they are.
            first, last = int(flat.table_slots.min()), int(flat.table_slots.max())
            rows = self._table[first : last + 1]
            self._stream.write(self._context.buffers["table"], rows, first * self._table.strides[0])

    def _replay(self, rows: int) -> None:
        """A token of ``rows`` sequences. Kernels load with the first launch, which no graph may record."""
        graph = self._graphs.get(rows)
        if graph is None and rows in self._graphs:
            graph = self._graphs[rows] = captured(self._stream, lambda: self._enqueue(rows, 0, rows)).graph
        if graph is not None:
            graph.launch(self._stream)
            return
        self._graphs[rows] = None
        self._enqueue(rows, 0, rows)

    def _enqueue(self, tokens: int, pieces: int, rows: int) -> None:
        this = Pass(
            tokens=tokens,
            ids="prompt_ids",
            slot="prompt_slot",
            position="prompt_position",
            runs="prompt_runs" if pieces else "",
            run_count=pieces,
            sampled=rows,
            rows="prompt_last",
            splits=self._splits(tokens),
        )
        body = _kept(self._bodies, (tokens, pieces), lambda: self._body(this))
        head = _kept(self._heads, rows, lambda: self._head(this)) if rows else ()
        for launch in (*body, *head):
            launch.enqueue()

    def _body(self, this: Pass) -> Launches:
        return _launches(step for step in self._decoder.steps(this) if step.operator != "logits")

    def _head(self, this: Pass) -> Launches:
        return _launches((self._decoder.logits(this), self._decoder.sample(this.sampled, UNWRITTEN)))

    def _splits(self, tokens: int) -> int:
        """As many as fill the device: few sequences must not leave most of it idle."""
        size = self._decoder.size
        blocks = tokens * size("KVH") * size("head_tiles")
        return min(max(2 * size("sms") // blocks, 1), size("most_splits"))

    def close(self) -> None:
        for graph in self._graphs.values():
            if graph is not None:
                graph.free()
        self._graphs.clear()


def _launches(steps: Iterable[Step]) -> Launches:
    return tuple(step.launch for step in steps)


def _kept(known: OrderedDict[Key, Launches], key: Key, make: Callable[[], Launches]) -> Launches:
    """What ``known`` has for ``key``, made where it has nothing; the one that was not asked for longest goes first."""
    found = known.pop(key, None)
    known[key] = make() if found is None else found
    if len(known) > KEPT:
        known.popitem(last=False)
    return known[key]
