"""A pass as flat arrays."""

from __future__ import annotations

import numpy as np

from runner.serving.arrays import UNUSED, arrays, runs
from runner.serving.batch import Chunk, StepBatch


def chunk(slot: int, first: int, ids: list[int], sampled: bool) -> Chunk:
    return Chunk(0, slot, first, np.array(ids, np.int32), sampled, "prefill")


def test_chunks_lie_one_after_the_other() -> None:
    batch = StepBatch(
        (chunk(3, 7, [50], True), chunk(0, 4, [10, 11, 12], False), chunk(1, 0, [20, 21], True)),
        tables=((0, (5, 6)), (3, (9,))),
    )
    flat = arrays(batch, pages_per_slot=3)
    assert flat.ids.tolist() == [50, 10, 11, 12, 20, 21]
    assert flat.slot.tolist() == [3, 0, 0, 0, 1, 1]
    assert flat.position.tolist() == [7, 4, 5, 6, 0, 1]
    assert flat.rows.tolist() == [0, 5]
    assert flat.table_slots.tolist() == [0, 3]
    assert flat.table_rows.tolist() == [[5, 6, UNUSED], [9, UNUSED, UNUSED]]
    for array in vars(flat).values():
        assert array.dtype == np.int32 and array.flags.c_contiguous


def test_a_pass_that_samples_nothing_and_changes_no_table() -> None:
    flat = arrays(StepBatch((chunk(0, 0, [1, 2], False),), ()), pages_per_slot=4)
    assert flat.rows.shape == (0,) and flat.table_slots.shape == (0,) and flat.table_rows.shape == (0, 4)


def test_runs_cover_each_chunk_and_cross_none() -> None:
    batch = StepBatch((chunk(3, 7, [50], True), chunk(0, 4, [1] * 5, False), chunk(1, 0, [2] * 4, True)), ())
    found = runs(batch, most=2)
    assert found.tolist() == [[0, 1], [1, 2], [3, 2], [5, 1], [6, 2], [8, 2]]
    assert found.dtype == np.int32 and runs(batch, most=64).tolist() == [[0, 1], [1, 5], [6, 4]]


def test_what_a_pass_computes() -> None:
    decode = chunk(0, 4, [1], True)._replace(phase="decode")
    prefill = chunk(1, 0, [1, 2], True)
    kinds = [StepBatch(chunks, ()).kind for chunks in ((decode,), (prefill,), (decode, prefill))]
    assert kinds == ["decode", "prefill", "mixed"]
