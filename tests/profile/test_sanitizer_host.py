"""The sanitizers' words on the host backend: what is run, and what is made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runner.build.model import CompilerMissing
from runner.profile import sanitizer_host
from runner.profile.base import Capture, Ended, Launch, ProfileSettings, Subject
from runner.profile.sanitizer_host import HostSanitizer
from runner.result.model import CheckResult, Profile, ProfileStatus

HOST = Subject("worker", "host")
REPORT = """\
==1==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x62100072d4a0 at pc 0x7f bp 0x7f sp 0x7f
READ of size 4 at 0x62100072d4a0 thread T2
    #0 0x7f00 in unsafe_overrun /some/folder/unsafe.cu:6
    #1 0x7f01 in void call<0u>(char const*) /project/cuda_src/host/unit.h:70

0x62100072d4a0 is located 0 bytes to the right of 4000-byte region [0x62100072c500,0x62100072d4a0)
"""
WRONG = CheckResult("copy", False, message="1 of 8 elements wrong")
RIGHT = CheckResult("copy", True)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sanitizer_host, "sanitizer_environment", lambda: {"LD_PRELOAD": "libasan.so", "ASAN_OPTIONS": "exitcode=86"}
    )


@pytest.fixture
def collected(captures: Callable[..., list[Capture]]) -> Iterator[Callable[..., Profile]]:
    """The profile of the first process of ``tool``, with a report of the address sanitizer or none."""

    def run(tool: str, ended: Ended, report: str = "") -> Profile:
        profiler = HostSanitizer(tool, ProfileSettings(timeout_s=5))
        launch, *others = profiler.launches(captures("a"), HOST)
        if report:
            (launch.scratch / "report.123").write_text(report)
        (profile,) = profiler.collect(launch, ended)
        assert not launch.scratch.exists()
        for other in others:
            profiler.collect(other, Ended(0))
        return profile

    yield run


def launches(tool: str, captures: Callable[..., list[Capture]]) -> list[Launch]:
    profiler = HostSanitizer(tool, ProfileSettings())
    made = profiler.launches(captures("a"), HOST)
    for launch in made:
        profiler.collect(launch, Ended(0))
    return made


@pytest.mark.parametrize(
    ("tool", "order", "barriers", "checked", "steps"),
    [
        ("memcheck", "0", "0", False, 1),
        ("racecheck", "1", "0", True, 4),
        ("initcheck", "0", "0", True, 1),
        ("synccheck", "0", "1", False, 1),
    ],
)
def test_what_is_run(
    tool: str, order: str, barriers: str, checked: bool, steps: int, captures: Callable[..., list[Capture]]
) -> None:
    for launch in launches(tool, captures):
        assert launch.sanitize and launch.command == ()
        assert launch.environment["RUNNER_HOST_ORDER"] == order
        assert launch.environment["RUNNER_HOST_BARRIERS"] == barriers
        assert launch.environment["LD_PRELOAD"] == "libasan.so"
        assert (launch.checked, launch.steps) == (checked, steps)


def test_initcheck_fills_fresh_memory_in_three_ways(captures: Callable[..., list[Capture]]) -> None:
    made = launches("initcheck", captures)
    fills = [launch.environment["ASAN_OPTIONS"].split("malloc_fill_byte=")[1] for launch in made]
    assert fills == ["255", "126", "254"]
    assert all(launch.environment["ASAN_OPTIONS"].startswith("exitcode=86:log_path=") for launch in made)
    (other,) = launches("memcheck", captures)
    assert other.environment["ASAN_OPTIONS"].endswith("malloc_fill_byte=0")


def test_an_access_out_of_bounds_is_memchecks(collected: Callable[..., Profile], tmp_path: Path) -> None:
    profile = collected("memcheck", Ended(86, problem="the worker exited with code 86"), REPORT)
    assert profile.status is ProfileStatus.OK
    (finding,) = profile.findings
    assert finding.kind == "heap-buffer-overflow, read of 4 bytes"
    assert finding.where == "unsafe_overrun in unsafe.cu:6"
    assert finding.detail.startswith("the address is 0 bytes to the right of 4000-byte region")
    assert profile.artifacts == ["model_a_memcheck.txt"]
    assert REPORT in (tmp_path / "job" / "a" / "model_a_memcheck.txt").read_text()


@pytest.mark.parametrize("tool", ["racecheck", "synccheck"])
def test_other_words_leave_it_to_memcheck(tool: str, collected: Callable[..., Profile]) -> None:
    profile = collected(tool, Ended(86, problem="the worker exited with code 86"), REPORT)
    assert profile.status is ProfileStatus.FAILED
    assert "unsafe_overrun in unsafe.cu:6" in profile.reason and "profiler=memcheck" in profile.reason
    assert profile.findings == [] and profile.artifacts == []


def test_a_result_that_depends_on_the_order(collected: Callable[..., Profile]) -> None:
    profile = collected("racecheck", Ended(0, checks={"a": [RIGHT, WRONG, WRONG, RIGHT]}))
    (finding,) = profile.findings
    assert finding.kind == "Result depends on the order of threads and blocks"
    assert (finding.where, finding.count, finding.detail) == ("check copy", 2, "1 of 8 elements wrong")


def test_a_result_that_depends_on_what_memory_held(collected: Callable[..., Profile]) -> None:
    (finding,) = collected("initcheck", Ended(0, checks={"a": [WRONG]})).findings
    assert finding.kind == "Result depends on uninitialised memory"
    assert finding.detail == "with memory full of 0xFF: 1 of 8 elements wrong"
    (access,) = collected("initcheck", Ended(86), REPORT).findings
    assert access.detail.endswith("with memory full of 0xFF")


@pytest.mark.parametrize(
    ("problem", "kind"),
    [
        (
            "kernel k, block (0,0,0): 16 of 32 threads left out a __syncthreads: thread (16,0,0) passed 0, others 1",
            "Divergent __syncthreads",
        ),
        (
            "kernel k, block (0,0,0), warp 0: lanes 0x0000ffff wait in a warp function with mask 0xffffffff that lanes "
            "0xffff0000 never reach",
            "Warp function without all its lanes",
        ),
    ],
)
def test_barriers_that_do_not_fit_are_syncchecks(problem: str, kind: str, collected: Callable[..., Profile]) -> None:
    (finding,) = collected("synccheck", Ended(3, problem=problem)).findings
    assert (finding.kind, finding.where) == (kind, "k")
    assert finding.detail == problem.removeprefix("kernel k, ")


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "initcheck", "synccheck"])
def test_nothing_found_is_ok_and_leaves_no_file(tool: str, collected: Callable[..., Profile]) -> None:
    profile = collected(tool, Ended(0, checks={"a": [RIGHT]}))
    assert profile.status is ProfileStatus.OK
    assert profile.findings == [] and profile.artifacts == [] and profile.reason == ""


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (Ended(None, timed_out=True), "profiler.timeout_s=5"),
        (Ended(3, problem="kernel k, block (0,0,0) thread (0,0,0): trap"), "the run failed: kernel k"),
        (Ended(1), "the worker ended with code 1"),
    ],
)
def test_a_run_that_fails_is_no_all_clear(ended: Ended, words: str, collected: Callable[..., Profile]) -> None:
    profile = collected("synccheck", ended)
    assert profile.status is ProfileStatus.FAILED
    assert words in profile.reason


def test_without_the_address_sanitizer_there_is_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> dict[str, str]:
        raise CompilerMissing("no C++ compiler found", advice="install it with: sudo apt-get install g++")

    monkeypatch.setattr(sanitizer_host, "sanitizer_environment", missing)
    assert "apt-get install g++" in HostSanitizer("memcheck", ProfileSettings()).unavailable()
