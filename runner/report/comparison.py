"""An experiment beside an earlier one: metric, then, now, change."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from runner.report.markdown import escape, table
from runner.report.numbers import digits
from runner.result import document
from runner.result.document import DocumentError
from runner.result.model import Result
from runner.result.names import plain
from runner.verdict.judge import judge
from runner.verdict.model import Pair, Rules
from runner.verdict.of_result import measured

_OF_LITTLE_USE = (
    *("samples", "samples_dropped", "trials", "time_us_rsd", "time_us_trials_rsd", "launches"),
    *("max_abs_err", "max_rel_err", "l2_err"),
)
"""Metrics whose change says nothing about speed."""


@dataclass(frozen=True)
class Earlier:
    """The results of an earlier command."""

    path: str
    """As it was named."""
    results: tuple[Result, ...]

    def of(self, result: Result) -> Result | None:
        """The earlier result of the same family, variant and backend, with as many equal parameters as there are."""
        same = [
            one
            for one in self.results
            if (one.kernel, one.variant, one.backend) == (result.kernel, result.variant, result.backend)
        ]
        return max(same, key=lambda one: -len(_differences(one, result)), default=None)


@lru_cache(maxsize=4)
def load(path: Path) -> Earlier:
    """The ``result.json`` at ``path``, or all those below it. Raises ``DocumentError`` naming the path."""
    if os.path.isdir(path):
        files = sorted(path.rglob(document.FILE_NAME))
        if not files:
            raise DocumentError(f"{path}: there is no {document.FILE_NAME} in it or below it")
    elif os.path.isfile(path):
        files = [path]
    else:
        raise DocumentError(f"{path}: there is no such file or folder")
    return Earlier(str(path), tuple(document.read(file) for file in files))


def comparison(results: Sequence[Result], earlier: Earlier) -> list[str]:
    """A table a variant; a line where there is nothing to compare with."""
    parts = [f"With `{earlier.path}`."]
    for result in results:
        then = earlier.of(result)
        if not result.metrics:
            continue
        if then is None or not then.metrics:
            parts.append(f"**{escape(result.variant)}**: the earlier run has no result of it on this backend.")
            continue
        about = [f"**{escape(result.variant)}**, then at {_commit(then)} on {then.started[:10]}"]
        about += [
            f"{escape(name)} was {escape(old)}, is {escape(new)}" for name, old, new in _differences(then, result)
        ]
        parts += ["; ".join(about) + ".", _table(then, result)]
    return parts


def _commit(result: Result) -> str:
    commit = str(result.environment.get("git_commit") or "")[:12] or "an unknown commit"
    return commit + (" with uncommitted changes" if result.environment.get("git_dirty") else "")


def _differences(then: Result, now: Result) -> list[tuple[str, str, str]]:
    """Parameters, the device and the driver, where they differ: name, then, now."""
    old, new = _conditions(then), _conditions(now)
    return [(name, old[name], new[name]) for name in old if name in new and old[name] != new[name]]


def _conditions(result: Result) -> dict[str, str]:
    longs = set(result.names.values())
    found = {name: plain(value) for name, value in result.params.items() if name not in longs}
    for name in ("driver", "nvcc"):
        if result.environment.get(name):
            found[name] = str(result.environment[name])
    device = result.environment.get("device")
    if isinstance(device, Mapping) and device.get("name"):
        found["device"] = str(device["name"])
    return found


def _table(then: Result, now: Result) -> str:
    old = {**then.metrics, **then.profile.metrics}
    new = {**now.metrics, **now.profile.metrics}
    rows = []
    for name in old:
        if name in new and name not in _OF_LITTLE_USE and (old[name] != new[name] or name == "time_us"):
            rows.append(
                [name, digits(old[name], 4), digits(new[name], 4), _change(name, then, now, old[name], new[name])]
            )
    return table(["metric", "then", "now", "change"], rows)


def _change(name: str, then: Result, now: Result, old: float, new: float) -> str:
    if not old:
        return "–"
    change = f"{new / old - 1:+.1%}"
    verdict = _verdict(then, now) if name == "time_us" else ""
    return f"{change} ({verdict})" if verdict else change


def _verdict(then: Result, now: Result) -> str:
    """What ``runner.compare`` would say; empty where the two are not the same experiment."""
    pair = Pair(measured(then), measured(now))
    if pair.baseline.configuration != pair.candidate.configuration:
        return ""
    (judged,) = judge([pair], Rules(across_gpus=True))  # another device is named above
    return judged.verdict.value
