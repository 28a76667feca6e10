"""The profiled runs of one experiment: after the timed one, tool by tool, each in processes of its own."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from runner.config.schema import Profiler as ProfilerConfig
from runner.execute.experiment import folder_of
from runner.execute.planning import Experiment
from runner.execute.subject import Profiled
from runner.plan.model import Plan
from runner.profile.base import Capture, Ended, Holds, Launch, Profiler, ProfileSettings
from runner.profile.names import range_name, report_name, shape_label
from runner.profile.tools import merged, open_profiler
from runner.result.metrics import counted_traffic
from runner.result.model import Profile, ProfileStatus, Result, Status
from runner.worker.locks import ASK_S

OnEvent = Callable[[str, str], None]

_UNNAMED = ("argv", "folder", "repeat", "warmup")
"""Parameters of a program that its report is not named after."""


_MEASURED = (Status.PASSED,)
_EXAMINED = (Status.PASSED, Status.INCORRECT, Status.RUNTIME_ERROR)
"""A variant that gave a wrong result or crashed can be run once more to see why; one that never ended, not."""


@dataclass(frozen=True)
class Commit:
    """What the reports are named after."""

    commit: str
    dirty: bool


def profile_settings(config: ProfilerConfig, categories: tuple[Path, ...] = ()) -> ProfileSettings:
    """The ``profiler`` group as the tools take it, with the user's rules for the categories of kernels."""
    values: dict[str, Any] = {
        field.name: getattr(config, field.name) for field in fields(ProfileSettings) if field.name != "categories"
    }
    return ProfileSettings(**{**values, "trace": tuple(config.trace)}, categories=categories)


def profile(
    experiment: Experiment, subject: Profiled, results: Sequence[Result], commit: Commit, on_event: OnEvent
) -> None:
    """Fills ``profile`` of every passed result, and by a sanitizer also of those that went wrong, since that is where
    it is needed; timings and checks stand whatever happens here. What a sanitizer finds makes a result INCORRECT that
    had passed."""
    if experiment.plan is None:
        return
    settings = profile_settings(experiment.config.profiler, experiment.categories)
    found: dict[str, list[Profile]] = {result.variant: [] for result in results}
    for tool in experiment.config.profiler.tools:
        profiler = open_profiler(tool, settings)
        wanted = [result for result in results if result.status in (_EXAMINED if profiler.verdict else _MEASURED)]
        if not wanted:
            continue
        captures = [_capture(experiment, result, commit) for result in wanted]
        profiles = _under(profiler, subject, captures, settings.timeout_s, on_event)
        for result in wanted:
            one = profiles[result.variant]
            found[result.variant].append(one)
            result.profile = merged(found[result.variant])
            result.profile.metrics.update(counted_traffic(result.metrics, result.profile.metrics))
            if profiler.verdict and one.findings:
                result.status = Status.INCORRECT if result.status is Status.PASSED else result.status
                result.message = "; ".join(filter(None, [result.message, _verdict(tool, one)]))


def _under(
    profiler: Profiler, subject: Profiled, captures: Sequence[Capture], timeout_s: float, on_event: OnEvent
) -> dict[str, Profile]:
    """The profile of each variant by one tool."""
    reason = profiler.unavailable(subject.about)
    if reason:
        return {c.variant: Profile(ProfileStatus.UNAVAILABLE, reason, profiler.title) for c in captures}
    try:
        launches = profiler.launches(captures, subject.about)
    except OSError as error:
        reason = f"no scratch folder could be made: {error}; free space, or set TMPDIR to another disk"
        return {c.variant: Profile(ProfileStatus.FAILED, reason, profiler.title) for c in captures}
    if not launches:
        return {c.variant: Profile(ProfileStatus.OK, tool=profiler.title, ranges=[c.range]) for c in captures}
    found: dict[str, list[Profile]] = {capture.variant: [] for capture in captures}
    left = list(launches)
    try:
        while left:
            launch = left.pop(0)
            on_event("profiling", f"{profiler.name} ({launch.note})" if launch.note else profiler.name)
            ended = Ended(None, problem="interrupted")
            try:
                # What one process found out (no permission, say) spares the others.
                reason = profiler.unavailable(subject.about)
                with _alone(launch, on_event):
                    ended = Ended(None, problem=reason) if reason else subject.run(launch, timeout_s)
            finally:
                profiles = profiler.collect(launch, ended)
            for capture, one in zip(launch.captures, profiles, strict=True):
                one.commands = one.commands or [ended.command]
                found[capture.variant].append(one)
    finally:
        for launch in left:  # Ctrl-C kept them from being started
            shutil.rmtree(launch.scratch, ignore_errors=True)
    return {variant: merged(profiles) for variant, profiles in found.items()}


@contextlib.contextmanager
def _alone(launch: Launch, on_event: OnEvent) -> Iterator[None]:
    """Holds the launch's lock, where it has one."""
    if launch.lock is None:
        yield
        return
    launch.lock.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(launch.lock)
    patience = 0.05
    while not lock.is_locked:
        try:
            lock.acquire(timeout=patience)
        except Timeout:
            on_event("waiting", launch.lock.stem)
            patience = ASK_S
    try:
        yield
    finally:
        lock.release()


def _verdict(tool: str, profile: Profile) -> str:
    first = profile.findings[0]
    more = sum(finding.count for finding in profile.findings) - 1
    where = f" {first.where}" if first.where else ""
    return f"[{tool}] {first.kind}{where}" + (f" and {more} more" if more else "")


def _capture(experiment: Experiment, result: Result, commit: Commit) -> Capture:
    plan = experiment.plan
    assert plan is not None
    letters = {name: plan.params[name] for name in experiment.config.kernel.declare}
    if plan.command is not None:
        letters = {name: value for name, value in plan.params.items() if name not in _UNNAMED}
    return Capture(
        variant=result.variant,
        range=range_name(plan.phase, plan.kernel, result.variant),
        name=report_name(
            model=plan.model or "none",
            gpu=plan.target.name,
            phase=plan.phase,
            kernel=plan.kernel,
            variant=result.variant,
            shape=shape_label(plan.shape or "none", letters),
            commit=commit.commit,
            dirty=commit.dirty,
        ),
        folder=folder_of(experiment, result.variant),
        holds=_holds(plan, result.variant),
    )


def _holds(plan: Plan, variant: str) -> Holds:
    """What must be in the report: on a GPU kernels, or any work where a workload class may only copy; of a program of
    the user nothing is known."""
    if plan.command is not None:
        return "anything"
    if plan.target.backend != "cuda":
        return "ranges"
    return "kernels" if plan.variant(variant).launches else "work"
