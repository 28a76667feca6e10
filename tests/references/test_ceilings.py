from __future__ import annotations

import math

import numpy as np

from runner.references.ceilings import expected
from tests.references.cases import case, check, rows, uniform


def test_copy_is_the_array_and_read_its_sums() -> None:
    source = uniform(1, 4, 64)
    some = case({"blocks": 4, "segment": 64}, source=source)
    assert np.array_equal(expected(some, check("copy"), rows(3, 1)), source[[3, 1]].astype(float))
    got = expected(some, check("read"), rows(0, 2))
    assert np.allclose(got, [math.fsum(map(float, source[0])), math.fsum(map(float, source[2]))], atol=1e-13)


def test_write_is_the_index_and_begins_again_where_float32_would_round() -> None:
    some = case({"blocks": 2**13, "segment": 4096})
    got = expected(some, check("write"), rows(1, 4096))
    assert got[0, 5] == 4096 + 5 and got[1, 0] == 0 and got.shape == (2, 4096)
    assert np.array_equal(got, got.astype(np.float32))


def test_chains_take_their_steps_one_after_another() -> None:
    """Worked by a loop in float32, as the device does it."""
    starts = np.array([0, 63, 7], dtype=np.float32)
    symbols = {"fma_blocks": 1, "chains": 8, "steps": 50}
    some = case(symbols, starts=np.resize(starts, 256))
    x = starts[:, None] + np.arange(8, dtype=np.float32)
    for _ in range(50):
        x = x * np.float32(1) + np.float32(1)
    assert np.array_equal(expected(some, check("fma_fp32"), rows(0, 1, 2)), x.sum(axis=1))


def test_products_of_halves_add_up() -> None:
    some = case({"rounds": 3})
    got = {name: expected(some, check(name), rows(9, 8)) for name in ("mma_bf16", "mma_fp8", "wgmma_fp16", "wgmma_fp8")}
    assert {name: sums.tolist() for name, sums in got.items()} == {
        "mma_bf16": [32 * 3 * 256 * 4.0] * 2,
        "mma_fp8": [32 * 3 * 256 * 8.0] * 2,
        "wgmma_fp16": [128 * 3 * 256 * 4.0] * 2,
        "wgmma_fp8": [128 * 3 * 256 * 8.0] * 2,
    }
