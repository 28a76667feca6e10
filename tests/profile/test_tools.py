from __future__ import annotations

from collections.abc import Callable

import pytest

from runner.config.check import PROFILERS
from runner.profile.base import Capture, ProfileSettings, Subject
from runner.profile.tools import TOOLS, merged, open_profiler
from runner.result.model import Finding, GapUse, Profile, ProfileStatus

HOST = Subject("worker", "host")


def test_the_config_allows_the_tools_there_are() -> None:
    assert set(PROFILERS) == set(TOOLS)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_answers_to_its_name_and_says_in_words_whether_it_can_be_used(tool: str) -> None:
    profiler = open_profiler(tool, ProfileSettings())
    assert profiler.name == tool
    assert profiler.title.startswith(tool) or profiler.title
    assert isinstance(profiler.unavailable(HOST), str)


def test_nvtx_needs_no_process(captures: Callable[..., list[Capture]]) -> None:
    profiler = open_profiler("nvtx", ProfileSettings())
    assert profiler.unavailable(HOST) == ""
    assert profiler.launches(captures("a"), HOST) == []


def test_nvtx_without_its_package_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.profile.nvtx.version", lambda: "")
    assert "pip install" in open_profiler("nvtx", ProfileSettings()).unavailable(HOST)


def test_a_missing_nsys_is_unavailable_with_the_install_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNNER_NSYS", "/not/there/nsys")
    assert "nsight-systems-cli" in open_profiler("nsys", ProfileSettings()).unavailable(HOST)


def test_an_unknown_tool_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="'vtune': allowed are nvtx, nsys"):
        open_profiler("vtune", ProfileSettings())


def test_several_tools_make_one_profile_with_the_worst_status() -> None:
    nsys = Profile(ProfileStatus.OK, tool="nsys 2023.4", artifacts=["a.nsys-rep"], metrics={"gpu_idle_share": 0.5})
    ncu = Profile(ProfileStatus.UNAVAILABLE, "no permission", tool="ncu 2025.3", findings=[Finding("x")])
    both = merged([nsys, ncu])
    assert both.status is ProfileStatus.UNAVAILABLE
    assert both.reason == "ncu: no permission"
    assert both.tool == "nsys 2023.4, ncu 2025.3"
    assert both.artifacts == ["a.nsys-rep"]
    assert both.metrics == {"gpu_idle_share": 0.5}
    assert both.findings == [Finding("x")]
    assert merged([]).status is ProfileStatus.OFF
    assert merged([ncu]) is ncu


def test_of_two_timelines_figures_and_tables_are_those_of_the_last() -> None:
    def timeline(tool: str, idle_us: float) -> Profile:
        gaps = [GapUse("step", 0, 1, idle_us, 100.0, idle_us, idle_us, idle_us)]
        return Profile(ProfileStatus.OK, tool=tool, metrics={"gpu_idle_share": idle_us / 100}, gaps=gaps)

    counted = Profile(ProfileStatus.OK, tool="ncu", metrics={"ncu_launches": 1.0})
    found = merged([timeline("nsys", 20.0), timeline("timeline", 30.0), counted])
    assert found.metrics == {"gpu_idle_share": 0.3, "ncu_launches": 1.0}
    assert [use.total_us for use in found.gaps] == [30.0]
