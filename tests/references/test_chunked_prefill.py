"""The schedule's results against exact fractions, step by step and update by update."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from runner.references.chunked_prefill import expected
from tests.references.cases import case, check, rows, uniform
from tests.references.test_sync import injected, single

SIZES = {"elements": 3, "decodeN": 6, "prefill_compute": 2}


@pytest.mark.parametrize(("steps", "compute"), [(1, 0), (1, 1), (5, 3), (4, 9)])
def test_the_state_is_exact(steps: int, compute: int) -> None:
    initial = uniform(steps, 6)
    some = case({**SIZES, "decode_steps": steps, "decode_compute": compute}, initial=initial)
    state = [Fraction(float(value)) for value in initial]
    for step in range(steps):
        for update in range(compute):
            mixed = [injected(i, step * compute + update) for i in range(6)]
            state = [single(s * Fraction(63, 64) + m / 64) for s, m in zip(state, mixed, strict=True)]
    got = expected(some, check("priority_decode"), rows(*range(6)))
    assert [Fraction(float(value)) for value in got] == state
    assert np.array_equal(expected(some, check("chunked_decode"), rows(5, 2)), got[[5, 2]])


@pytest.mark.parametrize("compute", [0, 1, 2, 5])
def test_the_prompt_is_mirrored_once_for_every_multiply_add(compute: int) -> None:
    prompt = np.array([-1.0, 0.25, 1.0 - 2.0**-23], np.float32)
    some = case({**SIZES, "prefill_compute": compute}, prompt=prompt)
    value = prompt.copy()
    for _ in range(compute):
        value = np.float32(0.5) - value
    assert np.array_equal(expected(some, check("chunked_prefill"), rows(0, 1, 2)), value)
