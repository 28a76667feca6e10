"""The decode loop against exact fractions, rounded once a step."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from runner.references.sync import expected
from tests.references.cases import case, check, rows, uniform

MASK = 0xFFFFFFFF


def injected(element: int, step: int) -> Fraction:
    bits = (element * 0x9E3779B1 + step * 0x85EBCA77) & MASK
    bits = (bits ^ bits >> 16) * 0x7FEB352D & MASK
    bits = (bits ^ bits >> 15) * 0x846CA68B & MASK
    bits ^= bits >> 16
    return Fraction((bits >> 8) - 2**23, 2**23)


def single(value: Fraction) -> Fraction:
    """The nearest float32, ties to even."""
    if value == 0:
        return value
    exponent = -140
    while abs(value) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    unit = Fraction(2) ** (exponent - 23)
    return round(value / unit) * unit


def loop(initial: npt.NDArray[np.float32], steps: int) -> tuple[list[Fraction], list[int]]:
    state = [Fraction(float(value)) for value in initial]
    tokens = []
    for step in range(steps):
        state = [single(s * Fraction(63, 64) + injected(i, step) / 64) for i, s in enumerate(state)]
        tokens.append(int(state[step * 7919 % len(state)] * 16384 // 1) + 16384)
    return state, tokens


@pytest.mark.parametrize(("count", "steps"), [(1, 5), (7, 20), (10, 33)])
def test_state_and_tokens_are_exact(count: int, steps: int) -> None:
    initial = uniform(count, count)
    some = case({"N": count, "steps": steps}, initial=initial)
    state, tokens = loop(initial, steps)
    got = expected(some, check("batched_async_state"), rows(*range(count)))
    assert [Fraction(float(value)) for value in got] == state
    assert expected(some, check("batched_async_tokens"), rows(*range(steps))).tolist() == tokens


def test_some_rows_only() -> None:
    initial = uniform(3, 50)
    some = case({"N": 50, "steps": 9}, initial=initial)
    every = expected(some, check("sync_each_step_state"), rows(*range(50)))
    assert np.array_equal(expected(some, check("sync_each_step_state"), rows(49, 3)), every[[49, 3]])
    tokens = expected(some, check("sync_each_step_tokens"), rows(*range(9)))
    assert expected(some, check("sync_each_step_tokens"), rows(8, 2)).tolist() == [tokens[8], tokens[2]]


def test_the_state_stays_within_one_and_keeps_its_spread() -> None:
    initial = np.concatenate([uniform(1, 500), np.array([-1.0, 1.0], np.float32)])
    some = case({"N": 502, "steps": 2000}, initial=initial)
    state = expected(some, check("sync_each_step_state"), rows(*range(502)))
    assert np.abs(state).max() <= 1.0 and state.std() > 0.02
    tokens = expected(some, check("sync_each_step_tokens"), rows(*range(200)))
    assert tokens.min() >= 0 and tokens.max() < 32768 and len(set(tokens.tolist())) > 100
