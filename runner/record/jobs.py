"""Jobs of a cluster, by what they leave on the shared folder: whoever submitted them may be gone while they run on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runner.record import spool
from runner.record.spool import Sweep
from runner.result.document import parsed

ANSWER_FILE = "job.json"
"""In the folder of a point, written last: its results are complete once it is there."""
_TRACES = (ANSWER_FILE, "job.log")
_SLURM = "slurm"
_LAUNCHER = re.compile(r"(?:^|\s)['\"]?\+*hydra/launcher=([\w-]+)")
_HERE = ("basic", "gpus")
"""Launchers that end with the process that was started."""


@dataclass(frozen=True)
class Pending:
    """Of a cluster's sweep whose submitting process is gone."""

    answered: tuple[Path, ...]
    """Folders of the points whose job has ended with an answer."""
    jobs: int
    """How many have not."""

    def complete(self, folders: Sequence[Path]) -> list[Path]:
        """Those results to which their job will add nothing."""
        return [folder for folder in folders if any(point in (folder, *folder.parents) for point in self.answered)]


def pending(folder: Path, sweep: Sweep) -> Pending | None:
    """What is left of a sweep whose process is gone, and whose jobs may not be; None for any other."""
    if not spool.is_stale(sweep) or not _on_a_cluster(folder, sweep):
        return None
    answers = [path for path in spool.files(folder, ANSWER_FILE) if _sweep_id(path) == sweep.sweep_id]
    left = sweep.experiments - len(answers)
    return Pending(tuple(path.parent for path in answers), left) if left > 0 else None


def _on_a_cluster(folder: Path, sweep: Sweep) -> bool:
    """By the command; where the launcher stands in a file of the user's, by what jobs leave."""
    named = _LAUNCHER.findall(sweep.command)
    if named:
        return named[-1] not in _HERE
    return (folder / _SLURM).is_dir() or any(spool.files(folder, name) for name in _TRACES)


def _sweep_id(answer: Path) -> str:
    try:
        return str(parsed(answer.read_text(encoding="utf-8"))["sweep_id"])
    except (OSError, ValueError, KeyError, TypeError):  # half of one: the job is at it
        return ""
