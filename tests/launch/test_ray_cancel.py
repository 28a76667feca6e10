"""How tasks of Ray are ended, without a Ray."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from runner.config.points import Point
from runner.launch.ray_cluster import Ray, RayCluster
from tests.kernels.plans import config


@dataclass
class Asked:
    """Stands in for the library. ``deaf``: tasks that end by force alone."""

    deaf: set[str] = field(default_factory=set)
    impatient: bool = False
    cancelled: list[tuple[str, bool]] = field(default_factory=list)

    def cancel(self, reference: str, force: bool) -> None:
        self.cancelled.append((reference, force))

    def wait(self, references: Sequence[str], num_returns: int, timeout: float) -> tuple[list[str], list[str]]:
        assert references and num_returns == len(references) and timeout > 0
        if self.impatient:
            raise KeyboardInterrupt
        return [one for one in references if one not in self.deaf], [one for one in references if one in self.deaf]


def cluster(asked: Asked, *references: str) -> RayCluster:
    made = RayCluster(Ray())
    made._ray = asked
    made._tasks = {reference: Point(config("kv_quant"), (), Path("/sweep/0")) for reference in references}
    return made


def test_tasks_are_asked_to_end_and_forced_where_they_do_not() -> None:
    asked = Asked(deaf={"b"})
    cluster(asked, "a", "b").cancel()
    assert asked.cancelled == [("a", False), ("b", False), ("b", True)]


def test_a_second_ctrl_c_ends_all_by_force() -> None:
    asked = Asked(impatient=True)
    with pytest.raises(KeyboardInterrupt):
        cluster(asked, "a").cancel()
    assert asked.cancelled == [("a", False), ("a", True)]


def test_nothing_that_runs_is_nothing_to_cancel() -> None:
    asked = Asked()
    cluster(asked).cancel()
    assert asked.cancelled == []
