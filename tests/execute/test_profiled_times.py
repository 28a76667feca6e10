"""The times reported under any profiler are those of the timed run: nothing a profiler says reaches them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path

import pytest
from filelock import FileLock
from omegaconf import OmegaConf

from runner.config.points import Point
from runner.config.schema import Kernel
from runner.execute import profiling
from runner.execute.planning import Experiment
from runner.execute.profiling import Commit, profile
from runner.plan.planner import make_plan
from runner.plan.target import target_of
from runner.profile.base import Capture, Ended, Launch, Subject
from runner.result.model import CheckResult, Finding, Profile, ProfileStatus, Result, Series, Status
from tests.plan.families import config

FAMILIES = Path(__file__).resolve().parents[1] / "families"


class Told:
    """A profiler that gives the profile it was made with, whatever happens."""

    name = "told"
    title = "told 1.0"

    def __init__(self, given: Profile, verdict: bool = False, missing: str = "") -> None:
        self._given = given
        self.verdict = verdict
        self._missing = missing

    def unavailable(self, subject: Subject) -> str:
        return self._missing

    def launches(self, captures: Sequence[Capture], subject: Subject) -> list[Launch]:
        return [Launch(tuple(captures), Path("unused"))]

    def collect(self, launch: Launch, ended: Ended) -> list[Profile]:
        return [copy.deepcopy(self._given) for _ in launch.captures]


class Quiet:
    """A subject whose processes end well."""

    about = Subject("worker", "host")

    def run(self, launch: Launch, timeout_s: float) -> Ended:
        return Ended(0, command="true")


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    loaded = OmegaConf.merge(OmegaConf.structured(Kernel), OmegaConf.load(FAMILIES / "kernel" / "faulty.yaml"))
    family = OmegaConf.to_object(loaded)
    assert isinstance(family, Kernel)
    made = config(family)
    made.gpu.backend = "host"
    made.profiler.tools = ["told"]
    plan = make_plan(made, target_of(made.gpu), (FAMILIES / "cuda_src", FAMILIES / "references"))[0]
    return Experiment(Point(made, (), tmp_path), plan=plan)


@pytest.fixture
def result() -> Result:
    timed = Result("1", "faulty", "plain", Status.PASSED, backend="host")
    timed.metrics = {"time_us": 12.5, "gbps": 640.0}
    timed.samples = [Series("cold", "host_events", [12.0, 13.0]), Series("hot", "host_events", [11.0])]
    timed.checks = [CheckResult("out", True)]
    return timed


SLOWER = {"time_us": 99.0, "gbps": 1.0, "launches_per_step": 3.0}


@pytest.mark.parametrize(
    ("profiler", "status"),
    [
        (Told(Profile(ProfileStatus.OK, tool="told 1.0", metrics=dict(SLOWER))), Status.PASSED),
        (Told(Profile(ProfileStatus.FAILED, "no report", metrics=dict(SLOWER))), Status.PASSED),
        (Told(Profile(), missing="not installed"), Status.PASSED),
        (Told(Profile(ProfileStatus.OK, findings=[Finding("race")], metrics=dict(SLOWER)), True), Status.INCORRECT),
    ],
    ids=["ok", "failed", "unavailable", "verdict"],
)
def test_times_samples_and_checks_are_the_timed_runs(
    experiment: Experiment, result: Result, monkeypatch: pytest.MonkeyPatch, profiler: Told, status: Status
) -> None:
    monkeypatch.setattr(profiling, "open_profiler", lambda tool, settings: profiler)
    held = (result.metrics, result.samples, *result.samples, *(s.samples_us for s in result.samples), result.checks)
    values = copy.deepcopy(held)
    profile(experiment, Quiet(), [result], Commit("c0ffee", False), lambda *event: None)
    after = (result.metrics, result.samples, *result.samples, *(s.samples_us for s in result.samples), result.checks)
    assert all(one is other for one, other in zip(held, after, strict=True))
    assert after == values
    assert result.status is status
    assert result.profile.status is not ProfileStatus.OFF


def test_a_profiler_that_breaks_leaves_the_times(
    experiment: Experiment, result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(launch: Launch, timeout_s: float) -> Ended:
        raise KeyboardInterrupt

    subject = Quiet()
    monkeypatch.setattr(subject, "run", interrupted)
    monkeypatch.setattr(profiling, "open_profiler", lambda tool, settings: Told(Profile(metrics=dict(SLOWER))))
    before = copy.deepcopy((result.metrics, result.samples))
    with pytest.raises(KeyboardInterrupt):
        profile(experiment, subject, [result], Commit("c0ffee", False), lambda *event: None)
    assert (result.metrics, result.samples) == before


@pytest.mark.parametrize(
    ("status", "examined"),
    [(Status.INCORRECT, True), (Status.RUNTIME_ERROR, True), (Status.TIMEOUT, False), (Status.SKIPPED, False)],
)
def test_a_sanitizer_also_looks_at_what_went_wrong(
    experiment: Experiment, result: Result, monkeypatch: pytest.MonkeyPatch, status: Status, examined: bool
) -> None:
    told = Told(Profile(ProfileStatus.OK, findings=[Finding("race", "k in k.cu:3")]), verdict=True)
    monkeypatch.setattr(profiling, "open_profiler", lambda tool, settings: told)
    result.status, result.message = status, "wrong"
    profile(experiment, Quiet(), [result], Commit("c0ffee", False), lambda *event: None)
    assert result.status is status
    assert result.message == ("wrong; [told] race k in k.cu:3" if examined else "wrong")
    told.verdict = False
    result.profile = Profile()
    profile(experiment, Quiet(), [result], Commit("c0ffee", False), lambda *event: None)
    assert result.profile.status is ProfileStatus.OFF


def test_a_tool_that_bears_no_other_waits_for_it(
    experiment: Experiment, result: Result, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "locks" / "told.lock"
    path.parent.mkdir()
    told = Told(Profile(ProfileStatus.OK))
    monkeypatch.setattr(told, "launches", lambda captures, subject: [Launch(tuple(captures), tmp_path, lock=path)])
    monkeypatch.setattr(profiling, "open_profiler", lambda tool, settings: told)
    held = FileLock(path)
    heard: list[tuple[str, str]] = []

    def on_event(kind: str, what: str) -> None:
        heard.append((kind, what))
        if kind == "waiting":
            held.release()

    held.acquire()
    profile(experiment, Quiet(), [result], Commit("c0ffee", False), on_event)
    assert heard == [("profiling", "told"), ("waiting", "told")]
    assert result.profile.status is ProfileStatus.OK
    assert not held.is_locked
    FileLock(path).acquire(timeout=0).lock.release()
