"""The section sets: every name the configuration accepts, and the arguments of each."""

from __future__ import annotations

import pytest

from runner.config.check import SECTIONS
from runner.profile.base import ProfileSettings
from runner.profile.sections import SETS, TRAFFIC


def test_the_configuration_knows_the_same_names() -> None:
    assert tuple(SETS) == SECTIONS
    assert ProfileSettings().sections in SETS


def test_the_tool_s_whole_set_is_asked_for_by_its_name() -> None:
    assert SETS["full"].arguments("kernel")[:2] == ("--set", "full")


def test_traffic_is_two_counters_and_the_time() -> None:
    metrics = "gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum"
    assert SETS["traffic"].arguments("kernel") == (f"--metrics={metrics}",)


def test_the_guide_s_sections_are_in_the_default_set() -> None:
    arguments = SETS["speed_of_light"].arguments("kernel")
    for section in ("SpeedOfLight", "MemoryWorkloadAnalysis", "Occupancy", "LaunchStats"):
        assert f"--section={section}" in arguments


@pytest.mark.parametrize("name", SETS)
def test_every_set_counts_the_traffic_and_says_its_cost(name: str) -> None:
    assert set(TRAFFIC) <= set(SETS[name].metrics)
    assert "pass" in SETS[name].cost


def test_a_range_is_replayed_without_instrumented_instructions() -> None:
    kernel, ranged = SETS["speed_of_light"].arguments("kernel"), SETS["speed_of_light"].arguments("range")
    assert "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum" in kernel[-1]
    assert "__sass_" not in ranged[-1]
    assert "dram__bytes_read.sum" in ranged[-1]
    assert ranged[:-1] == kernel[:-1]
    assert "--section=SourceCounters" not in SETS["source"].arguments("range")
