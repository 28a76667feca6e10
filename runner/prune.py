"""``python -m runner.prune <key>=<value> … [last=N [per=point|variant|kernel]] [baselines=true] [dry_run=false]``:
removes runs from the store, with their files. Without dry_run=false it only says what would go.

Which runs: the keys of runner.export, such as before=90d, kernel=, status=, commit=, tag.<name>=; uri= as there. last=N
keeps the newest N of each variant with the same parameters on the same kind of GPU (per=point), of each variant, or of
each family; and of each point the newest that PASSED, however many failed since.

Never removed: runs that are still being filed, runs with the tag keep (set it in MLflow's pages), runs whose files lie
outside the store's folder of artifacts or on a server's own disk, and baselines; with baselines=true those go whose
experiment has nothing else left. Results on disk, filed or not, are not touched.
Exit code 0: done, or nothing to do; 1: the store cannot be used, some are left; 2: the command is refused.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial

from runner import command_line
from runner.config.errors import choose_from
from runner.exit_codes import PASSED
from runner.record import pruning, reading, removal
from runner.record.filed import Filed
from runner.record.location import Location, locate
from runner.record.mlflow_store import MlflowStore
from runner.record.pruning import BASELINE, GROUPS, Everything, Group, Pruning
from runner.record.selection import Selection, flag, pairs, select

USAGE = (
    "usage: python -m runner.prune <key>=<value> … [last=N [per=point|variant|kernel]] [baselines=true] "
    "[dry_run=false] [uri=<tracking uri>]"
)
_OWN = ("last", "per", "baselines", "dry_run", "uri")
_SHOWN = 20
"""Runs named one by one."""


@dataclass(frozen=True)
class _Asked:
    """What the command line says."""

    location: Location
    selection: Selection
    last: int
    per: Group
    baselines: bool
    dry_run: bool


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; the exit code."""
    again = "interrupted; the same command goes on"
    return command_line.run(__doc__, USAGE, arguments, _parse, _prune, interrupted=again)


def _parse(words: Sequence[str]) -> _Asked:
    options = pairs(words, _OWN)
    own = {key: options.pop(key, "") for key in _OWN}
    last, per = own["last"], own["per"] or "point"
    if last and not (last.isdecimal() and int(last) > 0):
        raise ValueError(f"last={last}: must be a whole number from 1")
    group = next((each for each in GROUPS if each == per), None)
    if group is None:
        raise ValueError(f"per={per}: {choose_from(per, GROUPS)}")
    if own["per"] and not last:
        raise ValueError(f"per={per}: goes with last=N")
    if not options and not last:
        raise ValueError("say which runs may go: before=90d, say, or last=5")
    return _Asked(
        location=locate(own["uri"]),
        selection=select(options),
        last=int(last or 0),
        per=group,
        baselines=flag("baselines", own["baselines"], False),
        dry_run=flag("dry_run", own["dry_run"], True),
    )


def _prune(asked: _Asked) -> int:
    reading.require(asked.location)
    store = Everything()
    for batch in reading.runs(asked.location, Selection()):
        store.add(batch)
    obstacle = partial(removal.obstacle, asked.location)
    found = pruning.plan(store, asked.selection, asked.last, asked.per, asked.baselines, obstacle)
    print("\n".join(_told(found, len(store.results), asked.dry_run)))
    if asked.dry_run:
        if found.runs:
            print("nothing was removed; add dry_run=false to do it")
        return PASSED
    _remove(asked.location, found)
    return PASSED


def _told(found: Pruning, total: int, dry_run: bool) -> list[str]:
    """For the terminal."""
    word = "would remove" if dry_run else "removing"
    lines = [_line(run) for run in found.runs[:_SHOWN]]
    if len(found.runs) > _SHOWN:
        lines.append(f"… and {len(found.runs) - _SHOWN} more")
    families = Counter(run.params.get("kernel", "?") for run in found.runs)
    per_family = ", ".join(f"{kernel} {count}" for kernel, count in sorted(families.items()))
    summaries = f", and the summaries of {len(found.summaries)} commands" if found.summaries else ""
    lines.append(f"{word} {len(found.runs)} of {total} runs{f' ({per_family})' if families else ''}{summaries}")
    if found.kept:
        lines.append("kept: " + ", ".join(f"{count} × {reason}" for reason, count in sorted(found.kept.items())))
    if found.kept[BASELINE]:
        lines.append("baselines=true removes those whose experiment has nothing else left")
    return lines


def _line(run: Filed) -> str:
    started = datetime.fromtimestamp(run.started / 1000, timezone.utc)
    status, kernel = run.tags.get("status", "?"), run.params.get("kernel", "?")
    return f"{run.run_id}  {started:%Y-%m-%d %H:%M}  {status:14} {kernel}  {run.name}"


def _remove(location: Location, found: Pruning) -> None:
    """Each run as it is now: while others go, somebody may tag it or file on. What needs one that stays, stays too."""
    if not found.runs:
        return
    store = MlflowStore(location)
    store.open()
    baselines_last = sorted(found.runs, key=lambda run: run.tags.get("baseline") == "true")
    kept: Counter[str] = Counter()
    needed: set[str] = set()
    done = 0
    try:
        for run in [*baselines_last, *found.summaries]:
            now = store.run(run.run_id)
            reason = pruning.stays(now) or removal.obstacle(location, now)
            if not reason and _belongs(now) in needed:
                reason = "needed by those"
            if reason:
                kept[reason] += 1
                needed.update(filter(None, (now.tags.get("sweep_id"), now.tags.get("experiment_id"))))
                continue
            store.remove(now)
            done += 1
    finally:
        print(f"removed {done} of {len(found.runs) + len(found.summaries)}", flush=True)
    if kept:
        print("kept meanwhile: " + ", ".join(f"{count} × {reason}" for reason, count in kept.items()))
    if location.kind == "server":
        print("a server only marks them as deleted: `mlflow gc`, run beside its database, removes the rows")


def _belongs(run: Filed) -> str | None:
    """What a baseline or a summary is there for: an experiment, a sweep."""
    if run.tags.get("kind") == "summary":
        return run.tags.get("sweep_id")
    return run.tags.get("experiment_id") if run.tags.get("baseline") == "true" else None


if __name__ == "__main__":
    sys.exit(main())
