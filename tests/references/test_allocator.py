"""The sums of a workspace against an element-by-element count in Python's integers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from runner.references.allocator import expected
from tests.references.cases import case, check, rows, uniform


@pytest.mark.parametrize("elements", [1, 1000, 1024, 1025, 2500])
def test_sums_are_those_of_the_elements(elements: int) -> None:
    blocks, steps = -(-elements // 1024), 40
    activations = uniform(elements, blocks, 1024)
    some = case({"elements": elements, "blocks": blocks}, activations=activations)
    got = expected(some, check("malloc_free"), rows(*range(steps * blocks))).reshape(steps, blocks)
    flat = activations.reshape(-1)[:elements].tolist()
    for step in (0, 1, 33, 39):
        workspace = [math.floor(value * 1024) + (i + 31 * step) % 1024 for i, value in enumerate(flat)]
        assert [sum(workspace[b * 1024 : (b + 1) * 1024]) for b in range(blocks)] == got[step].tolist()


def test_every_step_of_a_short_block_gives_another_sum() -> None:
    some = case({"elements": 600, "blocks": 1}, activations=uniform(1, 1, 1024))
    got = expected(some, check("malloc_async"), rows(*range(33)))
    assert len(set(got.tolist())) == 33


def test_no_partial_sum_is_rounded_in_float32() -> None:
    assert np.float32(1024 * (1024 + 1023)) == 1024 * (1024 + 1023) < 2**24
