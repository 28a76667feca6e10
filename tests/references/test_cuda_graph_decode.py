"""The decode loop against exact fractions, rounded once an operation, and against float64 without any rounding."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from runner.check.case import Case
from runner.references.cuda_graph_decode import expected, inputs
from tests.references.cases import case, check, rows, uniform


def made(b: int, h: int, steps: int) -> Case:
    rotation = inputs(case({"H": h}), "rotation")
    gamma = np.abs(uniform(7, h)) + np.float32(0.5)
    return case({"B": b, "H": h, "steps": steps}, initial=uniform(b + h, b, h), gamma=gamma, rotation=rotation)


def single(value: Fraction) -> Fraction:
    """The nearest float32, ties to even."""
    if value == 0:
        return value
    exponent = -140
    while abs(value) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    unit = Fraction(2) ** (exponent - 23)
    return round(value / unit) * unit


def root(value: Fraction) -> Fraction:
    """The square root of a float32: float64 has more than twice its digits, so rounding once more changes nothing."""
    return single(Fraction(math.sqrt(float(value))))


def fractions(array: npt.NDArray[np.float32]) -> list[Fraction]:
    return [Fraction(float(value)) for value in array]


def loop(some: Case, row: int) -> tuple[list[Fraction], list[Fraction], list[int]]:
    """One row's last state, and the maximum and token of each step."""
    state, gamma = fractions(some.input("initial", row)), fractions(some.input("gamma"))
    cosine, sine = (fractions(some.input("rotation")[:, column]) for column in (0, 1))
    h, pairs = len(state), len(state) // 2
    largest, tokens = [], []
    for step in range(some["steps"]):
        squares = single(Fraction(sum(round(v * 2**14) ** 2 for v in state)))
        mean = single(squares / (h * 2**28))
        inverse = single(1 / root(single(mean + Fraction(float(np.float32(1e-5))))))
        norm = [single(single(v * inverse) * g) for v, g in zip(state, gamma, strict=True)]
        rotated = []
        for i in range(pairs):
            c, s = cosine[(i + step) % pairs], sine[(i + step) % pairs]
            x, y = norm[2 * i], norm[2 * i + 1]
            rotated += [single(single(x * c) - single(y * s)), single(single(x * s) + single(y * c))]
        state = [single(single(v * 3 / 4) + single(r / 4)) for v, r in zip(state, rotated, strict=True)]
        largest.append(max(state))
        tokens.append(state.index(max(state)))
    return state, largest, tokens


@pytest.mark.parametrize(("h", "steps"), [(2, 3), (6, 7), (10, 4)])
def test_every_bit(h: int, steps: int) -> None:
    some = made(2, h, steps)
    for row in (1, 0):
        state, largest, tokens = loop(some, row)
        assert fractions(expected(some, check("eager_state"), rows(row))[0]) == state
        assert fractions(expected(some, check("graph_max"), rows(row))[0]) == largest
        assert expected(some, check("graph_token"), rows(row))[0].tolist() == tokens


def test_it_is_rmsnorm_rotation_and_mix() -> None:
    """In float64, with a plain mean of squares: what the rounding and the integers stand for."""
    h, steps = 64, 5
    some = made(1, h, steps)
    state = some.input("initial", 0).astype(float)
    gamma, pairs = some.input("gamma").astype(float), some.input("rotation").astype(float)
    for step in range(steps):
        norm = state / math.sqrt(float(np.mean(state**2)) + 1e-5) * gamma
        angles = np.roll(pairs[:, 0] + 1j * pairs[:, 1], -step)
        turned = (norm[0::2] + 1j * norm[1::2]) * angles
        state = 0.75 * state + 0.25 * np.stack([turned.real, turned.imag], axis=1).ravel()
    assert np.allclose(expected(some, check("eager_state"), rows(0))[0], state, rtol=0, atol=2e-5)


def test_ties_go_to_the_lowest_index() -> None:
    h = 4
    level = np.full((1, h), 0.5, np.float32)
    still = np.array([[1.0, 0.0]] * 2, np.float32)  # no rotation
    some = case({"H": h, "steps": 2}, initial=level, gamma=np.ones(h, np.float32), rotation=still)
    assert expected(some, check("eager_token"), rows(0)).tolist() == [[0, 0]]


def test_a_long_loop_keeps_its_size_and_never_stands_still() -> None:
    """A step left out, or one replayed at a position that does not move, shows in the maxima."""
    some = made(2, 128, 500)
    state = expected(some, check("eager_state"), rows(0, 1))
    assert 0.3 < float(np.sqrt(np.mean(state**2))) < 1.6
    maxima = expected(some, check("eager_max"), rows(0, 1))
    assert (np.diff(maxima, axis=1) != 0).all() and np.ptp(maxima) > 0.1
    assert len(set(expected(some, check("eager_token"), rows(0))[0].tolist())) > 3


def test_the_table_is_one_of_rotations() -> None:
    table = inputs(case({"H": 12}), "rotation").astype(float)
    assert table.shape == (6, 2) and np.allclose((table**2).sum(axis=1), 1.0, atol=1e-7)
    assert math.atan2(table[3, 1], table[3, 0]) == pytest.approx(10000 ** (-6 / 12), rel=1e-6)
