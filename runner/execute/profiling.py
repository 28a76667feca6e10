"""The profiled run: a process of its own, after the timed one, over the hot region of every variant."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.execute.experiment import folder_of, worker_key
from runner.execute.planning import Experiment
from runner.plan import wire
from runner.plan.model import Plan
from runner.profile.base import Capture, Ended, Holds, Launch, Profiler, ProfileSettings
from runner.profile.names import range_name, report_name, shape_label
from runner.profile.tools import open_profiler, unavailable
from runner.result.model import Profile, Result, Status
from runner.worker.client import START_S, Worker, WorkerDied, WorkerTimeout


@dataclass(frozen=True)
class Commit:
    """What the reports are named after."""

    commit: str
    dirty: bool


def profile(
    experiment: Experiment,
    programs: Mapping[str, Path],
    results: Sequence[Result],
    commit: Commit,
    on_event: Callable[[str, str], None],
) -> None:
    """Fills ``profile`` of every passed result; timings and checks stand whatever happens here."""
    settings = experiment.config.profiler
    passed = [result for result in results if result.status is Status.PASSED]
    if experiment.plan is None or not passed:
        return
    profiler = open_profiler(ProfileSettings(settings.tool, tuple(settings.trace), settings.steps, settings.timeout_s))
    captures = [_capture(experiment, result, commit) for result in passed]
    if profiler.unavailable():
        found = unavailable(profiler, captures)
    elif profiler.own_process:
        on_event("profiling", profiler.name)
        found = _in_own_process(experiment, programs, profiler, captures)
    else:
        found = profiler.collect(None, captures, Ended(0))
    for result, one in zip(passed, found, strict=True):
        result.profile = one


def _in_own_process(
    experiment: Experiment, programs: Mapping[str, Path], profiler: Profiler, captures: Sequence[Capture]
) -> list[Profile]:
    assert experiment.plan is not None
    settings = experiment.config.profiler
    launch = profiler.launch(len(captures), experiment.plan.target.backend)
    ended = Ended(None, problem="interrupted")
    try:
        variants = [capture.variant for capture in captures]
        ended = _run(experiment, programs, variants, launch, settings.steps, settings.timeout_s)
    finally:
        found = profiler.collect(launch, captures, ended)
    return found


def _capture(experiment: Experiment, result: Result, commit: Commit) -> Capture:
    plan = experiment.plan
    assert plan is not None
    letters = {name: plan.params[name] for name in experiment.config.kernel.declare}
    return Capture(
        variant=result.variant,
        range=range_name(plan.phase, plan.kernel, result.variant),
        name=report_name(
            model=plan.model,
            gpu=plan.target.name,
            phase=plan.phase,
            kernel=plan.kernel,
            variant=result.variant,
            shape=shape_label(plan.shape, letters),
            commit=commit.commit,
            dirty=commit.dirty,
        ),
        folder=folder_of(experiment, result.variant),
        holds=_holds(plan, result.variant),
    )


def _holds(plan: Plan, variant: str) -> Holds:
    """What must be in the report: on a GPU kernels, or any work where a workload class may only copy."""
    if plan.target.backend != "cuda":
        return "ranges"
    return "kernels" if plan.variant(variant).launches else "work"


def _run(
    experiment: Experiment,
    programs: Mapping[str, Path],
    variants: Sequence[str],
    launch: Launch,
    steps: int,
    timeout_s: float,
) -> Ended:
    """One worker under the tool, asked for the hot regions, then left to end by itself."""
    assert experiment.plan is not None
    deadline = time.monotonic() + timeout_s
    worker = Worker(worker_key(experiment, launch.command, launch.environment))
    problem = ""
    timed_out = False
    code: int | None = None
    request: dict[str, Any] = {
        "plan": wire.to_dict(experiment.plan),
        "programs": {unit: str(path) for unit, path in programs.items()},
        "variants": list(variants),
        "steps": steps,
    }
    try:
        ready = worker.receive(min(START_S, timeout_s))
        if ready["kind"] == "failed":
            problem = ready["message"]
        else:
            worker.send("profile", **request)
            for message in worker.messages(timeout_s, "done"):
                if message["kind"] == "failed":
                    problem = message["message"]
                    break
        code = worker.stop(max(1.0, deadline - time.monotonic()))
        timed_out = code is None
    except WorkerTimeout:
        timed_out = True
    except WorkerDied as death:
        problem = death.detail
        code = worker.returncode
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            worker.kill()
        raise
    return Ended(code, timed_out, worker.log(), problem)
