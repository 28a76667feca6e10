"""Which runs may go, and why others stay. Pure: nothing is deleted here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from runner.record.filed import Filed
from runner.record.selection import Selection
from runner.result.model import Status
from runner.result.names import GROUP_KEYS

KEEP_TAG = "keep"
"""A run with this tag stays, unless its value says no."""
STANDARD_TAG = "baseline_of"
"""Of a run that is the standard for its GPU: the name of that device."""
BASELINE = "baseline"
"""Reason that a run stays."""
_NO = ("", "false", "no", "0")
Group = Literal["kernel", "variant", "point"]
GROUPS: tuple[Group, ...] = ("kernel", "variant", "point")


@dataclass
class Pruning:
    """What goes and what stays."""

    runs: list[Filed] = field(default_factory=list)
    """Results to be removed, the oldest first."""
    summaries: list[Filed] = field(default_factory=list)
    """Of commands none of whose results is left."""
    kept: Counter[str] = field(default_factory=Counter)
    """Runs that are meant and stay all the same, by reason."""


@dataclass
class Everything:
    """All that a store holds, without metrics."""

    results: list[Filed] = field(default_factory=list)
    summaries: list[Filed] = field(default_factory=list)

    def add(self, runs: Iterable[Filed]) -> None:
        """Runs that others have filed are nobody's business here."""
        for run in runs:
            kind = run.tags.get("kind")
            if kind in ("result", "summary"):
                slim = Filed(run.run_id, run.params, {}, _few(run.tags), run.started, run.ended, run.name, run.status,
                             run.artifacts)  # fmt: skip
                (self.results if kind == "result" else self.summaries).append(slim)


def stays(run: Filed) -> str:
    """Why a run stays whatever is asked; empty when it may go."""
    if run.status == "RUNNING":
        return "still being filed"
    if run.tags.get(STANDARD_TAG):
        return "the standard for its GPU"
    return f"with the tag {KEEP_TAG}" if run.tags.get(KEEP_TAG, "").lower() not in _NO else ""


def _anywhere(run: Filed) -> str:
    return ""


def plan(
    store: Everything,
    selection: Selection,
    last: int = 0,
    per: Group = "point",
    baselines: bool = False,
    obstacle: Callable[[Filed], str] = _anywhere,
) -> Pruning:
    """What goes of the runs that are meant.

    Stay: runs that are still being filed (RUNNING), runs with the tag ``keep``, the newest ``last`` of each group
    (a family; a variant of it; or a point, the same variant with the same parameters on the same kind of GPU) and
    with it the newest that PASSED of every point, however many failed since, and baselines. With
    ``baselines`` those go whose experiment has nothing else left. ``obstacle`` says why a run's files cannot be
    removed; empty when they can.
    """
    meant = [run for run in store.results if selection.holds(run) and _in_family(run, selection)]
    whenever = replace(selection, after=0, before=0)
    newest = _newest([run for run in store.results if whenever.holds(run)], last, _GROUPING[per])
    passed = [run for run in store.results if run.tags.get("status") == Status.PASSED.value]
    good = _newest(passed, 1 if last else 0, _point)
    found = Pruning()
    waiting: list[Filed] = []
    for run in meant:
        if reason := stays(run):
            found.kept[reason] += 1
        elif run.run_id in newest:
            found.kept[f"among the last {last}"] += 1
        elif run.run_id in good:
            found.kept["the newest that passed"] += 1
        elif reason := obstacle(run):
            found.kept[reason] += 1
        elif run.tags.get("baseline") == "true":
            waiting.append(run)
        else:
            found.runs.append(run)
    gone = {run.run_id for run in found.runs}
    needed = {run.tags.get("experiment_id") for run in store.results if run.run_id not in gone | _ids(waiting)}
    for run in waiting:
        if baselines and run.tags.get("experiment_id") not in needed:
            found.runs.append(run)
        else:
            found.kept[BASELINE] += 1
    found.runs.sort(key=lambda run: (run.started, run.run_id))
    found.summaries = [run for run in _orphans(store, found.runs) if not (stays(run) or obstacle(run))]
    return found


def _few(tags: Mapping[str, str]) -> dict[str, str]:
    """Without long texts, so that a large store fits in memory."""
    return {key: value for key, value in tags.items() if key != "mlflow.note.content"}


def _in_family(run: Filed, selection: Selection) -> bool:
    return not selection.kernels or run.params.get("kernel") in selection.kernels


def _point(run: Filed) -> tuple[object, ...]:
    dimensions = tuple(sorted((key, value) for key, value in run.params.items() if key not in GROUP_KEYS))
    chosen = tuple(
        run.params.get(key) for key in ("kernel", "variant", "model", "shape", "gpu", "dtype", "seed", "argv")
    )
    # GPUs without an option of their own are all called auto. Runs of an earlier version do not say the name.
    device = run.tags.get("device_name") or run.tags.get("gpu_uuid", "")
    return (*chosen, device, dimensions)


_GROUPING: dict[Group, Callable[[Filed], tuple[object, ...]]] = {
    "kernel": lambda run: (run.params.get("kernel"),),
    "variant": lambda run: (run.params.get("kernel"), run.params.get("variant")),
    "point": _point,
}


def _newest(runs: Sequence[Filed], last: int, group: Callable[[Filed], tuple[object, ...]]) -> set[str]:
    groups: dict[tuple[object, ...], list[Filed]] = {}
    for run in runs:
        groups.setdefault(group(run), []).append(run)
    newest = (sorted(each, key=lambda run: (run.started, run.run_id))[-last:] for each in groups.values() if last)
    return {run.run_id for each in newest for run in each}


def _orphans(store: Everything, runs: Sequence[Filed]) -> list[Filed]:
    gone = _ids(runs)
    left = {run.tags.get("sweep_id") for run in store.results if run.run_id not in gone}
    touched = {run.tags.get("sweep_id") for run in runs} - left
    return [run for run in store.summaries if run.tags.get("sweep_id") in touched]


def _ids(runs: Iterable[Filed]) -> set[str]:
    return {run.run_id for run in runs}
