"""Several trials of each variant: which process takes which, and what becomes of their outcomes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runner.execute import trials
from runner.execute.conversation import Job
from runner.measure.settings import MeasureSettings
from runner.plan.model import Variant
from runner.result.model import CheckResult, Series, Status
from runner.worker.client import Worker, WorkerKey, WorkerPool
from runner.worker.protocol import Outcome
from tests.kernels.hosted import programs
from tests.kernels.plans import HOST, plan
from tests.plan.plans import plan_with

JOB = Job(
    plan_with(variants=tuple(Variant(name, (), (), 0, 0, 0, "float32") for name in ("a", "b")), baseline="a"),
    {},
    MeasureSettings(),
    5.0,
    WorkerKey("host", (0,)),
    Path("job"),
)


class Processes:
    """Stands in for pool and conversation: notes which process is asked for what, and makes outcomes."""

    def __init__(self, failing: dict[int, str] | None = None) -> None:
        self.process = 1
        self.asked: list[tuple[int, tuple[str, ...]]] = []
        self.folders: list[Path] = []
        self._failing = failing or {}
        """Process → the variant that is wrong in it."""

    def close(self) -> None:
        self.process += 1

    def outcomes(self, pool: Processes, job: Job, on_event: trials.OnEvent) -> list[Outcome]:
        names = tuple(variant.name for variant in job.plan.variants)
        self.asked.append((self.process, names))
        self.folders.append(job.folder)
        made = []
        for name in names:
            on_event("started", name)
            wrong = self._failing.get(self.process) == name
            made.append(
                Outcome(
                    name,
                    Status.INCORRECT if wrong else Status.PASSED,
                    "[out] differs" if wrong else "",
                    [CheckResult("out", not wrong, max_abs_err=float(self.process))],
                    [] if wrong else [Series("cold", "host_events", [10.0 * self.process])],
                    {"energy_mj": float(self.process)},
                    warnings=["attached"],
                    started=f"t{self.process}",
                    duration_s=2.0,
                )
            )
        return made


def run(monkeypatch: pytest.MonkeyPatch, processes: Processes, count: int) -> tuple[list[Outcome], list[str]]:
    monkeypatch.setattr(trials, "outcomes", processes.outcomes)
    told: list[str] = []
    found = list(
        trials.outcomes_of_trials(processes, JOB, count, lambda kind, what: told.append(what))  # type: ignore[arg-type]
    )
    return found, told


def test_one_trial_is_a_plain_conversation(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Processes()
    found, told = run(monkeypatch, processes, 1)
    assert [one.variant for one in found] == ["a", "b"]
    assert (processes.asked, told) == ([(1, ("a", "b"))], ["a", "b"])


def test_each_trial_is_another_process_and_takes_every_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Processes()
    found, told = run(monkeypatch, processes, 3)
    assert processes.asked == [(number, ("a", "b")) for number in (1, 2, 3)]
    assert told[:3] == ["a (trial 1 of 3)", "b (trial 1 of 3)", "a (trial 2 of 3)"]
    first, second = found
    assert (first.variant, second.variant, first.status) == ("a", "b", Status.PASSED)
    assert [(item.trial, item.samples_us) for item in first.series] == [(1, [10.0]), (2, [20.0]), (3, [30.0])]
    assert [check.max_abs_err for check in first.checks] == [1.0]
    assert (first.metrics, first.warnings) == ({"energy_mj": 2.0}, ["attached"])
    assert (first.started, first.duration_s) == ("t1", 6.0)


def test_documents_of_a_workload_are_the_first_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Processes()
    run(monkeypatch, processes, 2)
    first, second = processes.folders
    assert first == JOB.folder
    assert second != JOB.folder and not second.exists()


def test_a_trial_that_fails_fails_its_variant_and_spares_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Processes(failing={2: "a"})
    found, _ = run(monkeypatch, processes, 3)
    assert processes.asked == [(1, ("a", "b")), (2, ("a", "b")), (3, ("b",))]
    first, second = found
    assert (first.status, first.message) == (Status.INCORRECT, "trial 2 of 3: [out] differs")
    assert [check.passed for check in first.checks] == [False]
    assert len(first.series) == 1
    assert (second.status, len(second.series)) == (Status.PASSED, 3)


def test_a_clock_that_was_held_down_in_one_trial_is_not_forgotten() -> None:
    slow = {"sm_clock_mhz": 900, "max_sm_clock_mhz": 1980, "throttle_reasons": ["thermal"]}
    fast = {"sm_clock_mhz": 1980, "max_sm_clock_mhz": 1980, "throttle_reasons": []}
    taken = [Outcome("a", Status.PASSED, state=state) for state in (fast, slow, fast)]
    assert trials.merged(taken, 3).state == slow
    assert trials.merged([taken[0], taken[2]], 2).state == fast


def test_no_process_is_started_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Processes(failing={1: "a"})
    monkeypatch.setattr(
        trials,
        "outcomes",
        lambda pool, job, told: [replace(one, status=Status.TIMEOUT) for one in processes.outcomes(pool, job, told)],
    )
    found = list(trials.outcomes_of_trials(processes, JOB, 5, lambda kind, what: None))  # type: ignore[arg-type]
    assert len(processes.asked) == 1
    assert [one.status for one in found] == [Status.TIMEOUT] * 2


class Noting(WorkerPool):
    """A pool that notes the processes it gives."""

    def __init__(self) -> None:
        super().__init__()
        self.pids: list[int] = []

    def get(self, key: WorkerKey) -> Worker:
        worker = super().get(key)
        self.pids.append(worker.pid)
        return worker


def test_real_workers_are_other_processes(tmp_path: Path) -> None:
    made = plan("rope_layout", target=HOST)
    settings = MeasureSettings(modes=("cold",), fixed=2, warmup=0)
    job = Job(made, programs(made), settings, 60.0, WorkerKey("host", (0,)), tmp_path)
    pool = Noting()
    try:
        found = list(trials.outcomes_of_trials(pool, job, 2, lambda kind, what: None))
    finally:
        pool.close()
    assert [one.variant for one in found] == [variant.name for variant in made.variants]
    assert all(one.status is Status.PASSED for one in found)
    assert all([item.trial for item in one.series] == [1, 2] for one in found)
    assert len(pool.pids) == len(set(pool.pids)) == 2
