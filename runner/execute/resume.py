"""``resume=true`` and ``retry=failed``: what of a command is left to run, once earlier results count."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from runner.config.schema import Config
from runner.execute import fingerprint
from runner.execute.experiment import folder_of
from runner.execute.planning import Experiment
from runner.paths import project_dir
from runner.record import search, spool
from runner.record.location import TrackingUnavailable, locate
from runner.result import document
from runner.result.document import DocumentError
from runner.result.model import INTERRUPTED, Result, Status

_FINGERPRINT = re.compile(r'"fingerprint"\s*:\s*"([^"]*)"')


@dataclass
class Left:
    """What remains, and what is there already."""

    experiments: list[Experiment] = field(default_factory=list)
    there: int = 0
    """Results that an earlier command has."""
    to_run: int = 0
    note: str = ""
    """What could not be looked at; empty = nothing."""

    @property
    def line(self) -> str:
        """For the terminal."""
        words = f"{self.there} results are there already, {self.to_run} are left to run"
        return f"{words}; {self.note}" if self.note else words


def asked(config: Config) -> bool:
    return config.resume or bool(config.retry)


def left(experiments: Sequence[Experiment], folder: Path, on_node: bool = False) -> Left:
    """The experiments that have variants to run, with those alone; one that has no plan stays as it is.

    Earlier results lie in ``outputs`` and ``multirun`` below the working folder, in ``folder`` (the command's own,
    where it was run there before), and in the store. A store that does not answer is said in ``note``: results on disk
    count without it. ``on_node``: as a job of a cluster, which reaches a store by its server only, never by its file.
    Raises ``TrackingUnavailable`` for a URI that names no store.
    """
    config = experiments[0].config
    prints = [fingerprint.of(experiment) for experiment in experiments]
    digests: dict[str, list[str]] = {}
    for experiment, names in zip(experiments, prints, strict=True):
        if experiment.plan is not None:
            digests.setdefault(experiment.plan.kernel, []).extend(names.values())
    earlier = _Earlier(config, folder, on_node, digests)
    remaining = Left()
    for experiment, names in zip(experiments, prints, strict=True):
        plan = experiment.plan
        if plan is None:
            remaining.experiments.append(experiment)
            continue
        found = {v.name: earlier.of(plan.kernel, names.get(v.name, "")) for v in plan.variants}
        passed = {name: result for name, results in found.items() if (result := _passed(results)) is not None}
        kept = tuple(variant for variant in plan.variants if _due(config, found[variant.name]))
        remaining.there += len(passed)
        remaining.to_run += len(kept)
        if kept:
            experiment.plan = replace(plan, variants=kept)
            for variant in kept:
                passed.pop(variant.name, None)
            experiment.before = list(passed.values())
            remaining.experiments.append(experiment)
    remaining.note = earlier.problem
    return remaining


def _due(config: Config, results: Sequence[Result]) -> bool:
    """Whether a variant with these earlier results, the newest first, is to run."""
    if config.resume:
        return _passed(results) is None
    return bool(results) and results[0].status.failed


def _passed(results: Iterable[Result]) -> Result | None:
    """The first that did."""
    return next((result for result in results if result.status is Status.PASSED), None)


def of_earlier_attempt(experiment: Experiment, sweep_id: str) -> list[Result]:
    """Results that a job had on disk when it was ended and put back into its queue: those of the same sweep, whatever
    their status. What it was at has none."""
    found: list[Result] = []
    for variant in experiment.plan.variants if experiment.plan else ():
        path = folder_of(experiment, variant.name) / document.FILE_NAME
        try:
            result = document.read(path)
        except DocumentError:  # none, or half of one
            continue
        if result.sweep_id == sweep_id and result.message != INTERRUPTED:
            found.append(result)
    return found


class _Earlier:
    """Earlier results by fingerprint. ``digests``: those that will be asked for, by family; others are not kept."""

    def __init__(self, config: Config, folder: Path, on_node: bool, digests: Mapping[str, Sequence[str]]) -> None:
        self.problem = ""
        self._wanted = {digest for wanted in digests.values() for digest in wanted if digest}
        self._stored = self._in_store(config, on_node, digests)
        roots = {Path(name).absolute() for name in spool.DEFAULT_FOLDERS} | {folder.absolute()}
        self._on_disk: dict[str, list[Result]] = {}
        for path in {path for root in roots if root.is_dir() for path in spool.results(root)}:
            # What was filed is in the store; what was not lies here alone.
            if self._stored is None or not spool.is_filed(path.parent):
                self._read(path)

    def of(self, kernel: str, digest: str) -> list[Result]:
        """The newest first; none without a fingerprint."""
        if not digest:
            return []
        stored = (self._stored or {}).get((kernel, digest), ())
        return sorted([*self._on_disk.get(digest, ()), *stored], key=lambda one: one.started, reverse=True)

    def _in_store(
        self, config: Config, on_node: bool, digests: Mapping[str, Sequence[str]]
    ) -> dict[tuple[str, str], list[Result]] | None:
        """By family and fingerprint, the newest first: one question for each family. None without a store."""
        if not config.tracking.enabled:
            return None
        location = locate(config.tracking.uri, project_dir())
        if on_node and location.kind == "sqlite":
            return None
        found: dict[tuple[str, str], list[Result]] = {}
        try:
            for kernel, wanted in digests.items():
                for digest, results in search.by_tag(location, kernel, "fingerprint", wanted).items():
                    found[kernel, digest] = results
        except TrackingUnavailable as error:
            self.problem = f"without those of the store: {error}"
            return None
        return found

    def _read(self, path: Path) -> None:
        try:
            # A job of a large sweep wants a few of very many: building the others would take most of its time.
            if self._wanted.isdisjoint(_FINGERPRINT.findall(path.read_text(encoding="utf-8"))):
                return
            result = document.read(path)
        except (OSError, ValueError):  # half of one, or of another version: it stands for nothing
            return
        digest = str(result.environment.get("fingerprint", ""))
        if digest in self._wanted:
            self._on_disk.setdefault(digest, []).append(result)
