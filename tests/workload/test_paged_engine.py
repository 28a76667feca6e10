"""What the engine keeps between passes."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import cast

import pytest

from runner.workload import paged_engine
from runner.workload.declared import BoundLaunch
from runner.workload.paged_engine import Launches, _kept


def test_launches_are_kept_and_those_not_asked_for_longest_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paged_engine, "KEPT", 2)
    known: OrderedDict[int, Launches] = OrderedDict()
    made: list[int] = []

    def make(key: int) -> Launches:
        made.append(key)
        return (cast(BoundLaunch, key),)

    for key in (1, 2, 1, 3, 2, 1):
        (found,) = _kept(known, key, partial(make, key))
        assert cast(int, found) == key
    assert made == [1, 2, 3, 2, 1] and list(known) == [2, 1]
