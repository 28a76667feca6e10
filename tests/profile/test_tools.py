from __future__ import annotations

from collections.abc import Callable

import pytest

from runner.profile.base import Capture, Ended, ProfileSettings
from runner.profile.tools import open_profiler, unavailable
from runner.result.model import ProfileStatus

DONE = Ended(0)


def test_none_is_off_for_every_variant(captures: Callable[..., list[Capture]]) -> None:
    profiler = open_profiler(ProfileSettings(tool="none"))
    assert not profiler.own_process
    assert [p.status for p in profiler.collect(None, captures("a", "b"), DONE)] == [ProfileStatus.OFF] * 2


def test_nvtx_reports_the_ranges_it_emits(captures: Callable[..., list[Capture]]) -> None:
    profiler = open_profiler(ProfileSettings(tool="nvtx"))
    assert not profiler.own_process
    assert profiler.unavailable() == ""
    (profile,) = profiler.collect(None, captures("a"), DONE)
    assert (profile.status, profile.ranges) == (ProfileStatus.OK, ["decode/demo/a"])


def test_nvtx_without_its_package_is_unavailable(
    captures: Callable[..., list[Capture]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runner.profile.nvtx.version", lambda: "")
    profiler = open_profiler(ProfileSettings(tool="nvtx"))
    (profile,) = unavailable(profiler, captures("a"))
    assert profile.status is ProfileStatus.UNAVAILABLE
    assert "pip install" in profile.reason


def test_a_missing_nsys_is_unavailable_with_the_install_hint(
    captures: Callable[..., list[Capture]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNNER_NSYS", "/not/there/nsys")
    profiler = open_profiler(ProfileSettings(tool="nsys"))
    profiles = unavailable(profiler, captures("a", "b"))
    assert [p.status for p in profiles] == [ProfileStatus.UNAVAILABLE] * 2
    assert "nsight-systems-cli" in profiles[1].reason


def test_an_unknown_tool_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="'vtune': allowed are none, nvtx, nsys"):
        open_profiler(ProfileSettings(tool="vtune"))
