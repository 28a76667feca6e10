"""Runs a plan's variants in a worker and yields an outcome for each, whatever happens to the worker."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from runner.backend.base import DeviceInfo
from runner.build import sanitizer
from runner.measure.settings import MeasureSettings
from runner.plan import wire
from runner.plan.model import Plan
from runner.result.model import Status
from runner.worker.client import WorkerDied, WorkerKey, WorkerPool, WorkerTimeout
from runner.worker.protocol import FAULT_EXIT, Outcome, outcome_from_dict

HELLO_S = 120.0
"""A started worker must have opened its devices within this."""


@dataclass(frozen=True)
class Job:
    """What the worker is asked to do."""

    plan: Plan
    programs: Mapping[str, Path]
    settings: MeasureSettings
    timeout_s: float
    key: WorkerKey
    folder: Path
    """The job's: a workload may leave documents in a variant's own folder below it."""
    held: bool = False
    """The driver holds the devices' locks itself."""


def ask_devices(pool: WorkerPool, key: WorkerKey, option: str = "devices") -> list[DeviceInfo]:
    """What the devices say about themselves. Raises ``WorkerDied`` with the backend's own message, after the ``option``
    that chose them."""
    worker = pool.get(key)
    worker.send("hello", devices=list(key.devices))
    message = worker.receive(HELLO_S)
    if message["kind"] == "failed":
        raise WorkerDied(f"{option}={list(key.devices)}: {message['message']}", "")
    return [DeviceInfo(**info) for info in message["devices"]]


def outcomes(
    pool: WorkerPool, job: Job, on_event: Callable[[str, str], None] = lambda kind, what: None
) -> Iterator[Outcome]:
    """One outcome per variant, in order. A worker that dies, hangs or fails costs the variant it was at, and is
    replaced.

    ``on_event`` hears ``("started", variant)`` and ``("waiting", lock)``.
    """
    remaining = [variant.name for variant in job.plan.variants]
    while remaining:
        current = ""
        try:
            worker = pool.get(job.key)
            worker.send("run", variants=remaining, **_request(job))
            for message in worker.messages(job.timeout_s, "done"):
                if message["kind"] == "failed":
                    status = Status(message["status"])
                    yield from _lost(remaining, current, status, message["message"])
                    if status is Status.RUNTIME_ERROR:
                        pool.discard()
                    break
                if message["kind"] == "outcome":
                    outcome = outcome_from_dict(message["outcome"])
                    remaining.remove(outcome.variant)
                    current = ""
                    yield outcome
                elif message["kind"] in ("started", "waiting"):
                    current = message.get("variant", current)
                    on_event(message["kind"], message.get("variant") or message["lock"])
            else:
                return
        except WorkerTimeout:
            pool.discard()
            yield from _lost(remaining, current, Status.TIMEOUT, _timeout_message(job, current))
        except WorkerDied as death:
            pool.discard()
            if death.code == FAULT_EXIT and not current:
                continue  # its last outcome says what happened
            yield from _lost(remaining, current, Status.RUNTIME_ERROR, _explained(death, job.plan))


def _request(job: Job) -> dict[str, Any]:
    return {
        "plan": wire.to_dict(job.plan),
        "programs": {unit: str(path) for unit, path in job.programs.items()},
        "settings": asdict(job.settings),
        "folder": str(job.folder.absolute()),
        "held": job.held,
    }


def _lost(remaining: list[str], current: str, status: Status, message: str) -> Iterator[Outcome]:
    """The variant that was running, or all that are left when it happened before any started."""
    lost: Sequence[str] = [current] if current else list(remaining)
    for name in lost:
        remaining.remove(name)
        yield Outcome(name, status, message)


def _timeout_message(job: Job, current: str) -> str:
    what = f"variant {current}" if current else "preparation"
    return (
        f"{what} did not end within timeout_s={job.timeout_s:g}; the worker was killed. "
        "A kernel that never ends, or a larger timeout_s= is needed"
    )


def _explained(death: WorkerDied, plan: Plan) -> str:
    """What a user can do about a worker that is gone."""
    if plan.sanitize:
        report = sanitizer.report(death.log)
        if report:
            return report
    last = death.log.strip().splitlines()[-1:] or [""]
    if death.code in (-signal.SIGSEGV, -signal.SIGBUS):
        return f"{death.detail}: a kernel touched memory that is not its own. sanitize=true gpu=host names the line"
    if death.code == -signal.SIGKILL:
        return f"{death.detail}: somebody killed it, or the machine ran out of memory"
    return f"{death.detail}. {last[0]}".strip()
