"""One point as a job of a cluster: its results on disk and nowhere else. Who submitted it files them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from runner.config.errors import ConfigError
from runner.config.points import Point
from runner.execute import resume
from runner.execute.lanes import InTurn
from runner.execute.planning import Experiment
from runner.execute.runs import Runs, told
from runner.exit_codes import FAILED, PASSED
from runner.record.jobs import ANSWER_FILE as ANSWER_FILE
from runner.record.location import TrackingUnavailable
from runner.report.progress import SweepProgress
from runner.report.terminal import Terminal
from runner.result import clock
from runner.result.document import DocumentError, parsed, write_text
from runner.result.model import Result, Status
from runner.worker.client import WorkerDied, WorkerTimeout

DUE_FILE = "due.json"
"""In the point's folder; written before anything runs: what a lost job owes."""


@dataclass(frozen=True)
class Answer:
    """What a job says when it has ended."""

    sweep_id: str
    exit_code: int
    message: str = ""
    """Why it failed as a whole; empty where each result speaks for itself."""
    note: str = ""
    """Of its target, or of a store that could not be asked."""
    there: int = 0
    """Results that an earlier command has (``resume=true``)."""
    to_run: int = 0
    results: list[str] = field(default_factory=list)
    """Ids of the results that it left: who reads them on another machine knows when all are visible."""
    job: dict[str, str] = field(default_factory=dict)
    """Launcher, id, node and log."""
    ended: str = ""
    """ISO 8601, UTC."""


class _Kept:
    """Results that stay on disk."""

    def __init__(self) -> None:
        self.results: list[Result] = []

    def add(self, result: Result, folder: Path) -> None:
        self.results.append(result)

    def flush(self, force: bool = False) -> None:
        pass


def run_one(point: Point, sweep_folder: Path, job: Mapping[str, str]) -> Answer:
    """Runs the point and writes its answer. Raises ``DocumentError`` where nothing can be written.

    Where an earlier attempt at the same job was cut short, the variants that it had finished are kept.
    """
    console = Terminal(highlight=False)
    experiment = Experiment(point, job=dict(job))
    lanes = InTurn()
    runs, kept = Runs([experiment], point.sweep_id, lanes, console), _Kept()
    notes: list[str] = []
    left = resume.Left(to_run=1)
    problem = ""
    try:
        _plan(runs, experiment, notes)
        if resume.asked(point.config):
            left = resume.left(runs.experiments, sweep_folder, on_node=True)
            runs.experiments = left.experiments
            notes.append(left.note)
            console.print(left.line, markup=False, soft_wrap=True)
        _write_due(point, runs.experiments)
        experiment.kept = resume.of_earlier_attempt(experiment, point.sweep_id)
        # One experiment, however often its job was put back into the queue.
        for made in [*experiment.kept, *experiment.before]:
            if made.sweep_id == point.sweep_id:
                experiment.id = made.experiment_id
        notes += runs.plan_needs()
        with SweepProgress(len(runs.all), console) as progress:
            runs.execute(kept, progress)
    except (DocumentError, TrackingUnavailable, ConfigError) as error:
        problem = str(error)
    except BaseException:
        lanes.discard()
        raise
    lanes.close()
    failed = problem or any(result.status.failed for result in kept.results)
    answer = Answer(
        sweep_id=point.sweep_id,
        exit_code=FAILED if failed else PASSED,
        message=problem,
        note="; ".join(dict.fromkeys(filter(None, notes))),
        there=left.there,
        to_run=left.to_run,
        results=[result.id for result in kept.results],
        job=dict(job),
    )
    write(answer, point.folder)
    return answer


def _plan(runs: Runs, experiment: Experiment, notes: list[str]) -> None:
    """A device that is not as the experiment needs it is the experiment's own affair: others have other nodes."""
    try:
        notes.append(runs.plan(experiment))
    except ConfigError as error:
        experiment.plan, experiment.refused = None, (Status.INVALID_CONFIG, str(error))
    except WorkerTimeout as error:  # the node's fault, not the configuration's
        experiment.plan, experiment.refused = None, (Status.RUNTIME_ERROR, str(error))
    except WorkerDied as death:
        # One that says itself what it lacks has no exit code: the experiment asks for what the node has not.
        status = Status.INVALID_CONFIG if death.code is None else Status.RUNTIME_ERROR
        experiment.plan, experiment.refused = None, (status, told(death))


def _write_due(point: Point, left: Sequence[Experiment]) -> None:
    """Nothing where it is not known yet, or where there is no plan to run. Raises ``DocumentError``."""
    if any(experiment.plan is None for experiment in left):
        return
    names = [variant.name for experiment in left if experiment.plan for variant in experiment.plan.variants]
    document = {"sweep_id": point.sweep_id, "variants": names}
    write_text(point.folder / DUE_FILE, json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def due(folder: Path, sweep_id: str) -> list[str] | None:
    """The variants that the job of this sweep was to run; None where it did not come to say."""
    try:
        found = parsed((folder / DUE_FILE).read_text(encoding="utf-8"))
        return list(found["variants"]) if found["sweep_id"] == sweep_id else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def write(answer: Answer, folder: Path) -> None:
    """Raises ``DocumentError``."""
    document = asdict(answer) | {"ended": clock.now()}
    write_text(folder / ANSWER_FILE, json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def read(folder: Path, sweep_id: str) -> Answer | None:
    """What the job of this sweep said; None as long as there is nothing."""
    try:
        found = Answer(**parsed((folder / ANSWER_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return found if found.sweep_id == sweep_id else None
