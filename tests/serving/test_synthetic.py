"""Drawn traces: the same from the same seed, with the rate and the ranges that were asked for."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from runner.config.errors import ConfigError
from runner.serving.prompts import prompt_ids
from runner.serving.synthetic import Synthetic, synthetic
from runner.serving.trace import Request

ASKED = Synthetic(2000, 50.0, (16, 64), (1, 8), shared=32, groups=3, seed=11)


def test_rate_and_ranges() -> None:
    trace = synthetic(ASKED)
    gaps = np.diff([one.arrival_s for one in trace])
    assert trace[0].arrival_s == 0 and (gaps >= 0).all() and [one.index for one in trace] == list(range(2000))
    assert gaps.mean() == pytest.approx(0.02, rel=0.1) and gaps.std() == pytest.approx(0.02, rel=0.1)
    assert {one.prompt for one in trace} == set(range(16, 65)) and {one.output for one in trace} == set(range(1, 9))
    assert {one.group for one in trace} == {0, 1, 2}
    assert all(one.shared == min(32, one.prompt) for one in trace)


def test_the_seed_decides() -> None:
    assert synthetic(ASKED) == synthetic(ASKED) != synthetic(replace(ASKED, seed=12))
    first = synthetic(Synthetic(3, 2.0, (1, 100), (1, 100)))
    assert [(one.prompt, one.output) for one in first] == FIRST


FIRST = [(39, 69), (2, 31), (94, 51)]
"""Pinned: results of another machine and another day have the same trace."""


def test_all_at_once() -> None:
    assert {one.arrival_s for one in synthetic(replace(ASKED, rate=math.inf))} == {0.0}


def test_prompts_of_a_group_begin_alike() -> None:
    one, other = Request(0, 0, 40, 1, 32, 1), Request(1, 0, 50, 1, 32, 1)
    apart = Request(2, 0, 50, 1, 32, 2)
    ids = prompt_ids(one, 1000, 5)
    assert ids.dtype == np.int32 and ids.shape == (40,) and ids.min() >= 0 and ids.max() < 1000
    assert (ids[:32] == prompt_ids(other, 1000, 5)[:32]).all()
    assert (ids[32:] != prompt_ids(other, 1000, 5)[32:40]).any()
    assert (ids[:32] != prompt_ids(apart, 1000, 5)[:32]).any()
    assert (ids != prompt_ids(one, 1000, 6)).any()


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("requests", 0, "requests=0: must be from 1 to 100000"),
        ("rate", 0.0, "rate=0.0: must be requests a second"),
        ("rate", math.nan, "rate=nan: must be requests a second"),
        ("prompt", (5, 4), "prompt=5..4: must be a range of lengths from 1 to 1048576"),
        ("output", (0, 4), "output=0..4: must be a range"),
        ("output", (1, 1 << 20), "2000 requests may have 8388 output tokens each"),
        ("groups", 0, "groups=0: must be from 1"),
        ("seed", -1, "seed=-1: must be from 0"),
    ],
)
def test_what_cannot_be_drawn_is_refused(field: str, value: object, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        synthetic(replace(ASKED, **{field: value}))  # type: ignore[arg-type]
    assert said in str(caught.value)
