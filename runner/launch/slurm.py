"""``hydra/launcher=slurm``: a sweep as job arrays, submitted by submitit.

Hydra's own plugin for submitit waits for all jobs and gives up on all of them where one is lost, needs an accounting
database to notice that, and asks the same of every node. So its jobs are submitted here.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.config.errors import ConfigError, choose_from
from runner.config.points import Point, Skipped
from runner.execute import on_node
from runner.execute.on_node import Answer
from runner.launch import elsewhere, options, slurm_client
from runner.launch.cluster import Ended
from runner.launch.job import NodeJob, for_node
from runner.launch.slurm_client import JobState, SlurmError

if TYPE_CHECKING:
    import submitit

FOLDER = "slurm"
"""Below the sweep's folder, by the sweep's id: what was submitted, and the jobs' logs."""
GRACE_S = 20.0
"""A file written on a node is seen here after this at the latest."""
LEAST_S, MOST_S = 1.0, 30.0
"""Slurm is asked this often: more seldom the longer nothing has changed."""
WARNED_S = 90
"""A job hears that its time is over, or that it is pre-empted, this long before it is ended."""


@dataclass
class Slurm:
    """``conf/hydra/launcher/slurm.yaml`` says what each means."""

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    timeout_min: int = 60
    gres: str | None = "gpu"
    features: dict[str, str] | None = None
    cpus_per_task: int | None = None
    mem_gb: float | None = None
    exclusive: bool = False
    array_parallelism: int = 256
    setup: list[str] = field(default_factory=list)
    sbatch: dict[str, Any] | None = None


def run(
    points: Sequence[Point], skipped: Sequence[Skipped], sweep_id: str, folder: Path, given: Mapping[str, Any]
) -> int:
    """The exit code. Raises ``ConfigError``."""
    chosen = options.read(Slurm, "slurm", given)
    for key, least in (("timeout_min", 1), ("cpus_per_task", 1), ("mem_gb", 0.001), ("array_parallelism", 1)):
        options.at_least(key, getattr(chosen, key), least)
    return elsewhere.run(points, skipped, sweep_id, folder, SlurmCluster(chosen))


class SlurmJob(NodeJob):
    """What submitit calls on a node."""

    def __call__(self) -> None:
        import submitit

        environment = submitit.JobEnvironment()
        if environment.global_rank == 0:  # an allocation of several tasks runs it several times
            self.require_folder()
            self.run("slurm", environment.job_id, str(environment.paths.stdout))

    def checkpoint(self) -> submitit.helpers.DelayedSubmission:
        """Submitit's question when the job is pre-empted or out of time: what to put back into the queue. The same,
        for it leaves out what it finds finished."""
        import submitit

        return submitit.helpers.DelayedSubmission(self)


@dataclass(frozen=True)
class _Kind:
    """What a job needs of its node; jobs that need the same are one array."""

    gres: str
    feature: str


@dataclass
class _Task:
    point: Point
    log: Path
    gone_since: float | None = None


class SlurmCluster:
    """Arrays of jobs, watched through ``squeue``."""

    title = "Slurm"

    def __init__(self, settings: Slurm) -> None:
        self.settings = settings
        self._tasks: dict[str, _Task] = {}
        """By id, ``12_3``: those that have not ended."""
        self._states: dict[str, JobState] = {}
        self._folder: Path | None = None
        self._silent = ""
        """Why Slurm could not be asked."""
        self._changed = self._asked = 0.0

    def submit(self, points: Sequence[Point], folder: Path) -> str:
        if importlib.util.find_spec("submitit") is None:
            raise ConfigError("hydra/launcher=slurm: submitit is not installed (pip install '.[slurm]')")
        kinds: dict[_Kind, list[Point]] = {}
        for point in points:
            kinds.setdefault(self._kind(point), []).append(point)
        try:
            self._check(kinds)
            largest = slurm_client.largest_array()
        except SlurmError as error:
            raise ConfigError(f"hydra/launcher=slurm: {error}") from error
        self._folder = folder / FOLDER / points[0].sweep_id
        self._folder.mkdir(parents=True, exist_ok=True)
        self._folder.chmod(0o700)  # jobs carry what the config holds, variables included
        try:
            for kind, members in kinds.items():
                for first in range(0, len(members), largest):
                    self._submit(kind, members[first : first + largest], folder)
        except BaseException:
            self.cancel()
            raise
        self._changed = time.monotonic()
        arrays = ", ".join(dict.fromkeys(name.split("_")[0] for name in self._tasks))
        return f"Slurm: {len(points)} jobs submitted ({arrays}); logs: {self._folder}"

    def _kind(self, point: Point) -> _Kind:
        config = point.config
        count = len(config.devices)
        if sorted(config.devices) != list(range(count)):
            raise ConfigError(
                f"devices={list(config.devices)}: a job counts the devices that it is given from 0; "
                f"write devices={list(range(count))}"
            )
        needs_gpu = config.gpu.backend != "host" and config.kernel.kind != "estimate"
        gres = f"{self.settings.gres}:{count}" if needs_gpu and self.settings.gres else ""
        feature = (
            (self.settings.features or {}).get(config.gpu.name, config.gpu.name) if config.gpu.backend == "cuda" else ""
        )
        return _Kind(gres, feature if needs_gpu else "")

    def _check(self, kinds: Mapping[_Kind, Sequence[Point]]) -> None:
        """Raises ``ConfigError`` for what no partition has, before anything is submitted."""
        known = slurm_client.partitions()
        name = self.settings.partition or next((name for name, one in known.items() if one.default), "")
        if self.settings.partition is not None and name not in known:
            raise ConfigError(f"hydra.launcher.partition={name}: no such partition; {choose_from(name, list(known))}")
        if not name:
            raise ConfigError(f"hydra.launcher.partition: has no default here; known: {', '.join(known)}")
        one = known[name]
        if one.limit_min is not None and self.settings.timeout_min > one.limit_min:
            raise ConfigError(
                f"hydra.launcher.timeout_min={self.settings.timeout_min}: partition {name} allows {one.limit_min:g}"
            )
        asked_mb = _megabytes(self.settings.mem_gb or 0)
        for key, value, asked, most, there in (
            ("cpus_per_task", self.settings.cpus_per_task, self.settings.cpus_per_task or 0, one.cpus, f"{one.cpus}"),
            ("mem_gb", self.settings.mem_gb, asked_mb, one.memory_mb, f"{one.memory_mb / 1024:.4g}"),
        ):
            if 0 < most < asked:  # sbatch may take it, and then it waits for ever
                raise ConfigError(f"hydra.launcher.{key}={value}: no node of partition {name} has more than {there}")
        for kind, members in kinds.items():
            config = members[0].config
            if kind.feature.replace("_", "").isalnum() and kind.feature not in one.features:
                raise ConfigError(
                    f"gpu={config.gpu.name}: no node of partition {name} has the feature {kind.feature} (there are "
                    f"{', '.join(sorted(one.features)) or 'none'}); hydra.launcher.features={{{config.gpu.name}: …}} "
                    "says what it is called here"
                )
            if kind.gres and self.settings.gres == "gpu" and len(config.devices) > one.gpus:
                raise ConfigError(
                    f"devices={list(config.devices)}: {len(config.devices)} GPUs asked, and no node of partition "
                    f"{name} has more than {one.gpus}"
                )

    def _submit(self, kind: _Kind, points: Sequence[Point], folder: Path) -> None:
        import submitit

        assert self._folder is not None
        executor = submitit.SlurmExecutor(self._folder)
        working = os.getcwd()
        jobs = [SlurmJob(for_node(point), folder, working) for point in points]
        said = io.StringIO()
        try:
            # What sbatch says is an error of ours to report; submitit prints it too.
            with contextlib.redirect_stderr(said):
                executor.update_parameters(**self._parameters(kind))
                submitted = [executor.submit(jobs[0])] if len(jobs) == 1 else executor.submit_array(jobs)
        except (RuntimeError, ValueError) as error:
            reason = slurm_client.last_line(said.getvalue() or str(error))
            options = self._asked_for(kind) | (self.settings.sbatch or {})
            asked = ", ".join(f"{key}={value}" for key, value in options.items())
            which = f"the jobs ({asked})" if asked else "the jobs"
            raise ConfigError(f"hydra/launcher=slurm: sbatch refuses {which}: {reason}") from error
        for point, job in zip(points, submitted, strict=True):
            self._tasks[job.job_id] = _Task(point, job.paths.stdout)

    def _asked_for(self, kind: _Kind) -> dict[str, Any]:
        chosen = self.settings
        values = {
            "partition": chosen.partition,
            "account": chosen.account,
            "qos": chosen.qos,
            "gres": kind.gres,
            "constraint": kind.feature,
            "cpus_per_task": chosen.cpus_per_task,
            "mem": f"{_megabytes(chosen.mem_gb)}MB" if chosen.mem_gb is not None else None,
        }
        return {key: value for key, value in values.items() if value}

    def _parameters(self, kind: _Kind) -> dict[str, Any]:
        chosen = self.settings
        values: dict[str, Any] = self._asked_for(kind) | {
            "job_name": "runner",
            "time": chosen.timeout_min,
            "nodes": 1,
            "ntasks_per_node": 1,
            "signal_delay_s": WARNED_S,
            "array_parallelism": chosen.array_parallelism,
            "setup": chosen.setup or None,
            # Put back into the queue when a node fails or the job is pre-empted; and no accounting key of submitit's.
            "additional_parameters": {"requeue": True, "wckey": "", **(chosen.sbatch or {})},
        }
        if chosen.exclusive:
            values["exclusive"] = True
        return values

    def ended(self) -> list[Ended]:
        time.sleep(LEAST_S)
        self._look()
        now = time.monotonic()
        found = [one for name, task in list(self._tasks.items()) for one in self._ended(name, task, now)]
        # What is taken for lost must not come back: a job of a failed node would be put into the queue again.
        self._scancel([one.job["id"] for one in found if one.answer is None])
        if found:
            self._changed = now
        return found

    def _look(self) -> None:
        """Asks Slurm, more seldom the longer nothing has changed."""
        now = time.monotonic()
        if now - self._asked < min(MOST_S, (now - self._changed) / 10):
            return
        self._asked = now
        arrays = sorted({name.split("_")[0] for name in self._tasks}, key=int)
        try:
            states, self._silent = slurm_client.states(arrays) if arrays else {}, ""
        except SlurmError as error:
            self._silent = str(error)
            return
        if states != self._states:
            self._changed = now
        self._states = states

    def _ended(self, name: str, task: _Task, now: float) -> Iterator[Ended]:
        state = self._states.get(name, JobState("UNKNOWN"))
        gone = state.state in ENDED_OR_UNKNOWN or state.reason in slurm_client.HOPELESS
        if not gone and not self._silent:
            task.gone_since = None
            return
        answer = on_node.read(task.point.folder, task.point.sweep_id)
        if answer is None and not gone:
            return
        if answer is None:
            task.gone_since = task.gone_since or now
            if now - task.gone_since < GRACE_S:
                return
        del self._tasks[name]
        yield self._answered(name, task, state, answer)

    def _answered(self, name: str, task: _Task, state: JobState, answer: Answer | None) -> Ended:
        job = {"launcher": "slurm", "id": name, "node": state.node, "log": str(task.log)}
        if answer is not None:
            return Ended(task.point, answer, job=answer.job)
        where = f" on {state.node}" if state.node else ""
        why = f"{state.state} ({state.reason})" if state.reason else state.state
        if state.state == "UNKNOWN":  # so it is with a task of an array that is cancelled while it waits
            why = "Slurm knows it no more, and it left no answer" if task.log.exists() else "cancelled before it began"
        said = _said(task.log.with_suffix(".err"))
        message = f"Slurm job {name}{where} was lost: {why}" + (f": {said}" if said else "")
        return Ended(task.point, None, message, job)

    def state(self) -> str:
        counts = Counter(one.state for name, one in self._states.items() if name in self._tasks)
        reasons = Counter(one.reason for one in self._states.values() if one.state == "PENDING" and one.reason)
        words = [f"{counts['RUNNING']} run", f"{counts['PENDING']} wait"]
        if reasons:
            words[-1] += f" ({', '.join(reason for reason, _ in reasons.most_common(2))})"
        return f"Slurm: {', '.join(words)}" + (f"; {self._silent}" if self._silent else "")

    def cancel(self) -> None:
        self._scancel(sorted({name.split("_")[0] for name in self._tasks}))

    def _scancel(self, names: Sequence[str]) -> None:
        if names:
            with contextlib.suppress(SlurmError):  # the jobs it no longer knows, or all of them where it is down
                slurm_client.ask("scancel", *names)

    def close(self) -> None:
        """Removes what this sweep submitted, which may hold secrets; scripts and logs stay."""
        if self._folder is None:
            return
        for path in self._folder.rglob("*.pkl"):
            path.unlink(missing_ok=True)
        self._folder.chmod(0o755)


ENDED_OR_UNKNOWN = slurm_client.ENDED | {"UNKNOWN"}


def _megabytes(gigabytes: float) -> int:
    return int(gigabytes * 1024)


def _said(log: Path) -> str:
    """The last line of a job's error log; empty where there is none."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace")[-4000:].strip().splitlines()
    except OSError:
        return ""
    return lines[-1].strip() if lines else ""
