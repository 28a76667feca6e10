"""One sweep by different launchers, and what each left in MLflow."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlflow.entities import Run
from mlflow.tracking import MlflowClient

FAMILIES = Path(__file__).resolve().parents[1] / "families"
QUICK = ("gpu=host", "measure=fixed", "measure.fixed=5", "measure.warmup=1")
"""A fixed number of samples: which metrics there are does not depend on how busy the machine is."""


def command(*arguments: str) -> list[str]:
    """The command line of a sweep."""
    return [sys.executable, "-m", "runner", "--config-dir", str(FAMILIES), *QUICK, *arguments, "-m"]


def run(folder: Path, *arguments: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    """Runs a sweep in ``folder``."""
    return subprocess.run(command(*arguments), cwd=folder, capture_output=True, text=True, timeout=timeout, check=False)


@dataclass
class Filed:
    """What a store holds."""

    runs: list[tuple[str, tuple[tuple[str, str], ...], tuple[str, ...]]] = field(default_factory=list)
    """Status, parameters and names of the metrics of each result's run, sorted."""
    sweep_ids: set[str] = field(default_factory=set)
    result_ids: Counter[str] = field(default_factory=Counter)
    summaries: int = 0
    tags: list[dict[str, str]] = field(default_factory=list)
    """Of the results' runs."""

    @property
    def statuses(self) -> Counter[str]:
        return Counter(status for status, _, _ in self.runs)


def filed(uri: str) -> Filed:
    """All of a store."""
    found = Filed()
    for run in _results_and_summaries(uri):
        _take(run, found)
    found.runs.sort()
    return found


def filed_by_sweep(uri: str) -> list[Filed]:
    """The same for each command, in their order."""
    found: dict[str, Filed] = {}
    for run in _results_and_summaries(uri):
        _take(run, found.setdefault(run.data.tags["sweep_id"], Filed()))
    for one in found.values():
        one.runs.sort()
    return [found[sweep_id] for sweep_id in sorted(found)]


def _take(run: Run, found: Filed) -> None:
    tags = run.data.tags
    if tags["kind"] == "summary":
        found.summaries += 1
        return
    found.tags.append(tags)
    found.sweep_ids.add(tags["sweep_id"])
    found.result_ids[tags["result_id"]] += 1
    found.runs.append((tags["status"], tuple(sorted(run.data.params.items())), tuple(sorted(run.data.metrics))))


def _results_and_summaries(uri: str) -> list[Run]:
    client = MlflowClient(uri)
    return [run for one in client.search_experiments() for run in _all_runs(client, one.experiment_id)]


def _all_runs(client: MlflowClient, experiment: str) -> list[Run]:
    runs: list[Run] = []
    token: Any = None
    while token != "":
        page = client.search_runs([experiment], page_token=token)
        runs, token = [*runs, *page], page.token or ""
    return runs
