"""A worker that dies, hangs, faults or fails costs the variant it was at, and nothing else."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.execute.conversation import Job, outcomes
from runner.measure.settings import MeasureSettings
from runner.plan.model import Plan, Variant
from runner.result.model import Status
from runner.worker.client import WorkerDied, WorkerKey, WorkerTimeout, how
from runner.worker.protocol import FAULT_EXIT, Outcome, outcome_to_dict
from tests.plan.plans import plan_with

NAMES = ("a", "b", "c")


def plan(sanitize: bool = False) -> Plan:
    variants = tuple(Variant(name, (), (), 0, 0, 0, "float32") for name in NAMES)
    return plan_with(variants=variants, baseline="a", sanitize=sanitize)


def passed(name: str) -> dict[str, Any]:
    return {"kind": "outcome", "outcome": outcome_to_dict(Outcome(name, Status.PASSED))}


def faulted(name: str) -> dict[str, Any]:
    outcome = Outcome(name, Status.RUNTIME_ERROR, "illegal address")
    return {"kind": "outcome", "outcome": outcome_to_dict(outcome)}


def started(name: str) -> dict[str, Any]:
    return {"kind": "started", "variant": name}


def died(code: int, log: str = "") -> WorkerDied:
    return WorkerDied(f"the worker {how(code)}", log, code)


class ScriptedWorker:
    """Answers a ``run`` with the next script: messages to yield, or an exception to raise."""

    def __init__(self, pool: ScriptedPool) -> None:
        self.pool = pool

    def send(self, kind: str, **fields: Any) -> None:
        self.pool.requests.append(fields["variants"][:])

    def messages(self, timeout_s: float, last: str) -> Iterator[dict[str, Any]]:
        for item in self.pool.scripts.pop(0):
            if isinstance(item, Exception):
                raise item
            yield item


class ScriptedPool:
    """Stands in for ``WorkerPool``; counts how often the worker had to be replaced."""

    def __init__(self, *scripts: list[dict[str, Any] | Exception]) -> None:
        self.scripts = list(scripts)
        self.requests: list[list[str]] = []
        self.discarded = 0

    def get(self, key: WorkerKey) -> ScriptedWorker:
        return ScriptedWorker(self)

    def discard(self) -> None:
        self.discarded += 1


def run(pool: ScriptedPool) -> list[tuple[str, Status]]:
    job = Job(plan(), {"main": Path("main.so")}, MeasureSettings(), 5.0, WorkerKey("host", (0,)), Path("job"))
    return [(outcome.variant, outcome.status) for outcome in outcomes(pool, job)]  # type: ignore[arg-type]


DONE = {"kind": "done"}


def test_all_variants_in_one_conversation() -> None:
    pool = ScriptedPool([started("a"), passed("a"), started("b"), passed("b"), started("c"), passed("c"), DONE])
    assert run(pool) == [(name, Status.PASSED) for name in NAMES]
    assert pool.requests == [["a", "b", "c"]]
    assert pool.discarded == 0


def test_a_crash_costs_one_variant_and_the_rest_run_in_a_new_worker() -> None:
    crash = died(-signal.SIGSEGV)
    pool = ScriptedPool(
        [started("a"), passed("a"), started("b"), crash],
        [started("c"), passed("c"), DONE],
    )
    assert run(pool) == [("a", Status.PASSED), ("b", Status.RUNTIME_ERROR), ("c", Status.PASSED)]
    assert pool.requests == [["a", "b", "c"], ["c"]]
    assert pool.discarded == 1


def test_a_hang_is_a_timeout_and_the_rest_run() -> None:
    pool = ScriptedPool(
        [started("a"), WorkerTimeout("no answer")],
        [started("b"), passed("b"), started("c"), passed("c"), DONE],
    )
    assert run(pool) == [("a", Status.TIMEOUT), ("b", Status.PASSED), ("c", Status.PASSED)]


def test_a_reported_fault_is_filed_once_and_the_worker_is_replaced() -> None:
    pool = ScriptedPool(
        [started("a"), faulted("a"), died(FAULT_EXIT)],
        [started("b"), passed("b"), started("c"), passed("c"), DONE],
    )
    assert run(pool) == [("a", Status.RUNTIME_ERROR), ("b", Status.PASSED), ("c", Status.PASSED)]
    assert pool.discarded == 1


def test_a_death_before_any_variant_fails_them_all_and_ends() -> None:
    pool = ScriptedPool([died(-signal.SIGKILL)])
    assert run(pool) == [(name, Status.RUNTIME_ERROR) for name in NAMES]


def test_a_failed_preparation_gives_its_status_to_every_variant() -> None:
    pool = ScriptedPool([{"kind": "failed", "status": "OUT_OF_MEMORY", "message": "needs 9 GiB, 1 GiB free"}])
    assert run(pool) == [(name, Status.OUT_OF_MEMORY) for name in NAMES]
    assert pool.discarded == 0


def test_a_failure_within_a_variant_costs_that_one_and_the_rest_run_in_a_new_worker() -> None:
    failure = {"kind": "failed", "status": "RUNTIME_ERROR", "message": "KeyError: 'scores'"}
    pool = ScriptedPool(
        [started("a"), passed("a"), started("b"), failure],
        [started("c"), passed("c"), DONE],
    )
    assert run(pool) == [("a", Status.PASSED), ("b", Status.RUNTIME_ERROR), ("c", Status.PASSED)]
    assert pool.requests == [["a", "b", "c"], ["c"]]
    assert pool.discarded == 1


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (-signal.SIGSEGV, "was killed by SIGSEGV: a kernel touched memory that is not its own. sanitize=true"),
        (-signal.SIGKILL, "ran out of memory"),
        (1, "exited with code 1. ValueError: bad reference"),
    ],
)
def test_the_message_says_what_to_do(code: int, advice: str) -> None:
    pool = ScriptedPool([died(code, "Traceback\nValueError: bad reference\n")])
    job = Job(plan(), {}, MeasureSettings(), 5.0, WorkerKey("host", (0,)), Path("job"))
    first = next(iter(outcomes(pool, job)))  # type: ignore[arg-type]
    assert advice in first.message
