"""``measure.crosscheck=true``: the kernels' own times as a second opinion on ``time_us``, after all timing.

On a GPU they are CUPTI's records, on the host backend its own trace. Like a profiler it has a process of its own, and
what it finds never replaces a time.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from runner.backend.cuda import cupti
from runner.execute.experiment import folder_of
from runner.execute.planning import Experiment
from runner.execute.subject import Profiled
from runner.profile import nvtx
from runner.profile.base import Capture, Ended, Launch, Subject
from runner.profile.names import range_name
from runner.result.doubts import crosscheck_doubt
from runner.result.metrics import main_series
from runner.result.model import Result, Status, TraceEvent
from runner.timeline.spans import span_us
from runner.worker.protocol import STEPS_SUFFIX

METRIC = "time_us_crosscheck"
STEPS = 20
"""Recorded steps of each variant."""
_KEY = "measure.crosscheck=true"

OnEvent = Callable[[str, str], None]


def crosscheck(experiment: Experiment, subject: Profiled, results: Sequence[Result], on_event: OnEvent) -> None:
    """Fills ``METRIC`` of every passed result, or says in its warnings why it could not, and where the two times
    differ. Nothing here fails a result."""
    wanted = []
    for result in results:
        main = main_series(result.samples)
        if result.status is not Status.PASSED or main is None or METRIC in result.metrics:
            continue
        if main.mode == "cold":
            wanted.append(result)
        else:
            result.warnings.append(f"{_KEY}: time_us is of {main.mode} samples, and only cold ones can be compared")
    if not wanted:
        return
    reason = _unavailable(subject.about)
    if reason:
        for result in wanted:
            result.warnings.append(f"{_KEY}: {reason}")
        return
    on_event("profiling", "crosscheck")
    try:
        with tempfile.TemporaryDirectory(prefix="runner-crosscheck-") as scratch:
            launch = _launch(experiment, wanted, Path(scratch), subject.about)
            ended = subject.run(launch, experiment.config.timeout_s)
            for result in wanted:
                _judge(result, launch, ended, experiment.config.timeout_s)
    except OSError as error:
        for result in wanted:
            result.warnings.append(f"{_KEY}: {error}; it needs a scratch folder: free space, or set TMPDIR")


def _unavailable(subject: Subject) -> str:
    if subject.backend != "cuda":
        return ""
    tool = nvtx.attached()
    if tool:
        return f"{tool} is attached to this process, and CUPTI serves one tool at a time: run the command without it"
    return cupti.reason()


def _launch(experiment: Experiment, results: Sequence[Result], scratch: Path, subject: Subject) -> Launch:
    plan = experiment.plan
    assert plan is not None
    captures = tuple(
        Capture(
            variant=result.variant,
            range=range_name(plan.phase, plan.kernel, result.variant),
            name="crosscheck",
            folder=folder_of(experiment, result.variant),
        )
        for result in results
    )
    return Launch(
        captures,
        scratch,
        backend=subject.backend,
        steps=STEPS,
        record=True,
        flushed=True,
    )


def _judge(result: Result, launch: Launch, ended: Ended, timeout_s: float) -> None:
    try:
        steps = _read(launch.scratch / f"{result.variant}{STEPS_SUFFIX}")
    except FileNotFoundError:
        result.warnings.append(f"{_KEY}: nothing was recorded: {_why_missing(ended, timeout_s)}")
        return
    except (OSError, ValueError, TypeError) as error:
        result.warnings.append(f"{_KEY}: the records cannot be read: {error}")
        return
    spans = [span for span in map(span_us, steps) if span is not None]
    if not spans:
        result.warnings.append(f"{_KEY}: no kernel and no copy was recorded in {len(steps)} steps")
        return
    result.metrics[METRIC] = median(spans)
    source = "CUPTI sees" if launch.backend == "cuda" else "the host backend's own trace has"
    doubt = crosscheck_doubt(result.metrics["time_us"], result.metrics[METRIC], source)
    result.warnings += [doubt] if doubt else []


def _read(path: Path) -> list[list[TraceEvent]]:
    """Raises ``OSError``, or ``ValueError`` and ``TypeError`` for what are no events."""
    return [[TraceEvent(**event) for event in step] for step in json.loads(path.read_text(encoding="utf-8"))]


def _why_missing(ended: Ended, timeout_s: float) -> str:
    if ended.timed_out:
        return f"the worker did not end within timeout_s={timeout_s:g} and was killed"
    if ended.problem:
        return ended.problem
    lines = [line.strip() for line in ended.output.splitlines() if line.strip()]
    return f"the worker ended with code {ended.returncode} ({lines[-1] if lines else 'it said nothing'})"
