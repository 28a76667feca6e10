"""What Slurm says of itself: its partitions, and the state of jobs. Needs no accounting database."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field

ANSWER_S = 60.0
"""Slurm's commands give up by themselves after some tries; this is for those that hang."""
ENDED = frozenset(
    ("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT")
)
"""States that a job does not leave."""
HOPELESS = ("launch failed requeued held", "BadConstraints", "DependencyNeverSatisfied", "JobHoldMaxRequeue")
"""Reasons for which a job waits for ever."""


class SlurmError(RuntimeError):
    """A command failed; the message is the last thing that it said."""


@dataclass
class Partition:
    """``limit_min``: the longest a job may run, None = without limit. ``features``: what its nodes have."""

    limit_min: float | None = None
    default: bool = False
    features: set[str] = field(default_factory=set)
    gpus: int = 0
    cpus: int = 0
    memory_mb: int = 0
    """Each of the node that has most."""


@dataclass(frozen=True)
class JobState:
    """One job or task of an array, as ``squeue`` tells it."""

    state: str
    reason: str = ""
    node: str = ""


def ask(*command: str) -> str:
    """What a command prints. Raises ``SlurmError``."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_S, check=False)
    except FileNotFoundError as error:
        raise SlurmError(f"there is no {command[0]} here: this is no machine of a Slurm cluster") from error
    except subprocess.TimeoutExpired as error:
        raise SlurmError(f"{command[0]} did not answer within {ANSWER_S:g} s") from error
    if done.returncode != 0:
        raise SlurmError(last_line(done.stderr) or f"{command[0]} exited with code {done.returncode}")
    return done.stdout


def last_line(text: str) -> str:
    """The last line of an error that says something, without the command that said it."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith('Try "')]
    return re.sub(r"^\w+: (error: )?(Batch job submission failed: )?", "", lines[-1]) if lines else ""


def partitions() -> dict[str, Partition]:
    """By name. Raises ``SlurmError``."""
    found: dict[str, Partition] = {}
    for line in ask("sinfo", "--noheader", "--exact", "--format=%P|%l|%f|%G|%c|%m").splitlines():
        name, limit, features, gres, cpus, memory = (line.split("|") + [""] * 6)[:6]
        one = found.setdefault(name.rstrip("*"), Partition())
        one.default = name.endswith("*")
        one.limit_min = minutes(limit)
        one.features |= {part for part in features.split(",") if part and part != "(null)"}
        one.gpus = max(one.gpus, gpus(gres))
        one.cpus, one.memory_mb = max(one.cpus, _whole(cpus)), max(one.memory_mb, _whole(memory))
    return found


def _whole(count: str) -> int:
    """0 where it is no number."""
    return int(count) if count.isdigit() else 0


def gpus(gres: str) -> int:
    """``gpu:a100:4(S:0-1),shard:8`` has four."""
    return sum(int(count) for count in re.findall(r"(?:^|,)gpu(?::[^:,()]+)?:(\d+)", gres))


def minutes(limit: str) -> float | None:
    """Of ``1-02:30:00``, ``30:00`` or ``infinite``."""
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", limit.strip())
    if found is None:
        return None
    days, hours, mins, seconds = (int(part or 0) for part in found.groups())
    return days * 1440 + hours * 60 + mins + seconds / 60


def largest_array() -> int:
    """How many tasks an array may have. Raises ``SlurmError``."""
    found = re.search(r"^MaxArraySize\s*=\s*(\d+)", ask("scontrol", "show", "config"), re.MULTILINE)
    return max(1, int(found[1]) - 1) if found else 1000


def states(arrays: Sequence[str]) -> dict[str, JobState]:
    """Of every task of these arrays that Slurm still knows: it forgets them some minutes after their end.
    Raises ``SlurmError`` where it does not answer."""
    try:
        lines = ask(
            *("squeue", "--noheader", "--states=all", "--array", "--format=%i|%T|%r|%N"), f"--jobs={','.join(arrays)}"
        )
    except SlurmError as error:
        if "Invalid job id" in str(error):
            return {}
        raise
    found = {}
    for line in lines.splitlines():
        name, state, reason, node = (line.split("|") + [""] * 4)[:4]
        found[name] = JobState(state, "" if reason == "None" else reason, node)
    return found
