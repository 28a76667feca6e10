"""A pass as the flat arrays that kernels read, all int32."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from runner.serving.batch import StepBatch

Int32 = npt.NDArray[np.int32]
UNUSED = 0
"""Entry of a page table behind a sequence's last page: a page that exists, for kernels that load it in advance."""


@dataclass(frozen=True, eq=False)
class StepArrays:
    """N tokens, R of them sampled, C changed rows of the page table."""

    ids: Int32
    """Shape (N,): tokens of a chunk follow each other."""
    slot: Int32
    """Shape (N,)."""
    position: Int32
    """Shape (N,), from 0: its place within the sequence, and by the page table in the cache."""
    rows: Int32
    """Shape (R,): indices into the N tokens, in order; the sampler's ids answer to them."""
    table_slots: Int32
    """Shape (C,): rows of the page table to write before the pass."""
    table_rows: Int32
    """Shape (C, pages_per_slot), ``UNUSED`` behind the pages that a sequence has."""


def arrays(batch: StepBatch, pages_per_slot: int) -> StepArrays:
    """The arrays of a pass that has at least one chunk."""
    counts = [len(chunk.ids) for chunk in batch.chunks]
    ends = np.cumsum(counts)
    table_rows = np.full((len(batch.tables), pages_per_slot), UNUSED, np.int32)
    for row, (_, pages) in zip(table_rows, batch.tables, strict=True):
        row[: len(pages)] = pages
    starts = np.repeat(ends - counts, counts)
    firsts = np.repeat([chunk.first for chunk in batch.chunks], counts)
    return StepArrays(
        ids=np.concatenate([chunk.ids for chunk in batch.chunks]),
        slot=np.repeat([chunk.slot for chunk in batch.chunks], counts).astype(np.int32),
        position=(np.arange(ends[-1]) - starts + firsts).astype(np.int32),
        rows=(ends[[chunk.sampled for chunk in batch.chunks]] - 1).astype(np.int32),
        table_slots=np.array([slot for slot, _ in batch.tables], np.int32),
        table_rows=table_rows,
    )


def runs(batch: StepBatch, most: int) -> Int32:
    """(first of the N tokens, tokens) of the pieces that each chunk is cut into, none longer than ``most``: shape
    (pieces, 2)."""
    pieces: list[tuple[int, int]] = []
    start = 0
    for chunk in batch.chunks:
        end = start + len(chunk.ids)
        pieces += [(first, min(most, end - first)) for first in range(start, end, most)]
        start = end
    return np.array(pieces, np.int32)
