"""Every sequence's state against exact fractions, one sequence after another."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from runner.references.streams import expected
from tests.references.cases import case, check, rows, uniform
from tests.references.test_sync import injected, single


@pytest.mark.parametrize(("sequences", "count"), [(1, 1), (3, 5), (4, 2)])
def test_the_states_are_exact(sequences: int, count: int) -> None:
    initial = uniform(count, sequences, count)
    some = case({"S": sequences, "N": count, "steps": 3, "compute": 4}, initial=initial)
    got = expected(some, check("priorities"), rows(*range(sequences * count)))
    for sequence in range(sequences):
        for i in range(count):
            value = Fraction(float(initial[sequence, i]))
            for update in range(3 * 4):
                value = single(value * Fraction(63, 64) + injected(sequence * count + i, update) / 64)
            assert Fraction(float(got[sequence * count + i])) == value


def test_sequences_differ_also_from_the_same_start() -> None:
    initial = np.tile(uniform(1, 1, 6), (3, 1))
    some = case({"S": 3, "N": 6, "steps": 2, "compute": 1}, initial=initial)
    got = expected(some, check("serial"), rows(*range(18))).reshape(3, 6)
    assert (got[0] != got[1]).all() and (got[1] != got[2]).all()
    assert np.array_equal(expected(some, check("serial"), rows(17, 3)), [got[2, 5], got[0, 3]])
