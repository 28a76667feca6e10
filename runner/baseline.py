"""``python -m runner.baseline set [<name>] run=…|sweep=…|commit=… [<key>=<value> …]``: names runs as the standard for
their GPU, which the gate of a study holds later runs against. ``python -m runner.baseline show [<key>=<value> …]``
lists the standards, ``unset <key>=<value> …`` makes them runs like any other.

Which runs: the keys of runner.export, such as kernel=, variant=, gpu=, param.<name>, and uri=. Only runs that PASSED
with good quality become a standard; others are refused with the reason. There is one for each configuration and
device: the newest of the runs that are meant takes the place of the one before it.
Exit code 0: done; 1: some are refused, none is meant, or the store cannot be used; 2: the command is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import groupby

from rich import box
from rich.markup import escape
from rich.table import Table

from runner import command_line, streams
from runner.config.errors import choose_from
from runner.exit_codes import FAILED, PASSED
from runner.record import baselines, reading
from runner.record.baselines import NAME_TAG
from runner.record.filed import Filed
from runner.record.location import Location, locate
from runner.record.mlflow_store import MlflowStore
from runner.record.pruning import STANDARD_TAG
from runner.record.selection import Selection, pairs, select
from runner.report import numbers
from runner.report.terminal import Terminal
from runner.result import clock

USAGE = (
    "usage: python -m runner.baseline set [<name>] run=…|sweep=…|commit=… [<key>=<value> …] [uri=<tracking uri>]\n"
    "       python -m runner.baseline show|unset [<key>=<value> …] [uri=<tracking uri>]"
)
_ACTIONS = ("set", "show", "unset")
_SOURCES = ("run", "sweep", "commit")
_NAME_LIMIT = 100


@dataclass(frozen=True)
class _Asked:
    """What the command line says."""

    action: str
    name: str
    selection: Selection
    location: Location


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; the exit code."""
    again = "interrupted; the same command goes on"
    return command_line.run(__doc__, USAGE, arguments, _parse, _do, interrupted=again)


def _do(asked: _Asked) -> int:
    reading.require(asked.location)
    return {"set": _set, "show": _show, "unset": _unset}[asked.action](asked)


def _parse(words: Sequence[str]) -> _Asked:
    action = words[0] if words else ""
    if action not in _ACTIONS:
        raise ValueError(f"{action or 'nothing to do'}: {choose_from(action, _ACTIONS)}")
    rest = list(words[1:])
    name = rest.pop(0) if action == "set" and rest and "=" not in rest[0] else ""
    if not name.isprintable() or len(name) > _NAME_LIMIT:
        raise ValueError(f"set: a name is printable and has at most {_NAME_LIMIT} characters; this one has {len(name)}")
    options = pairs(rest, ("uri",))
    location = locate(options.pop("uri", ""))
    if action == "set" and not any(key in options for key in _SOURCES):
        raise ValueError("set: say which runs: run=<id>, sweep=<id> or commit=<hash>")
    if action == "unset" and not options:
        raise ValueError("unset: say which: kernel=<family>, say, or run=<id>")
    return _Asked(action, name, select(options), location)


def _set(asked: _Asked) -> int:
    meant = [run for batch in reading.runs(asked.location, asked.selection) for run in batch]
    change = baselines.plan(meant, baselines.standing(asked.location, Selection()))
    if change.chosen:
        store = MlflowStore(asked.location)
        store.open()
        baselines.apply(store, change, asked.name, clock.now())
    for run in change.chosen:
        print(f"standard for {run.tags['device_name']}: {_line(run)}")
    for run in change.replaced:
        print(f"no longer: {_line(run)}")
    if change.older:
        print(f"{len(change.older)} older runs of the same configurations were passed over")
    for run, reason in change.refused:
        streams.complain(f"{_line(run)}: {reason}", "refused")
    if not change.chosen and not change.refused:
        return _nothing(asked, "no run")
    return FAILED if change.refused else PASSED


def _show(asked: _Asked) -> int:
    found = baselines.standing(asked.location, asked.selection)
    if not found:
        return _nothing(asked, "no standard")
    console = Terminal(highlight=False)
    for table in _tables(found):
        console.print(table)
    return PASSED


def _unset(asked: _Asked) -> int:
    found = baselines.standing(asked.location, asked.selection)
    if not found:
        return _nothing(asked, "no standard")
    store = MlflowStore(asked.location)
    store.open()
    baselines.unset(store, found)
    for run in found:
        print(f"no longer standard for {run.tags['device_name']}: {_line(run)}")
    return PASSED


def _tables(runs: Sequence[Filed]) -> Iterator[Table]:
    """One for each device, its rows by family and name. The first column gives way where the terminal is narrow."""
    for device, group in groupby(sorted(runs, key=_place), key=lambda run: run.tags[STANDARD_TAG]):
        table = Table(title=escape(device), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        table.add_column("kernel, variant, parameters", overflow="fold")
        for title in ("time", "95 % interval"):
            table.add_column(title, justify="right", no_wrap=True)
        for title in ("commit", "date"):
            table.add_column(title, no_wrap=True)
        table.add_column("name", overflow="fold")
        for run in group:
            bounds = [run.metrics.get(key) for key in ("time_us_low", "time_us_high")]
            cells = [f"{run.params.get('kernel', '')} {run.name}", numbers.time(run.metrics["time_us"])]
            cells += [" – ".join(numbers.time(bound) for bound in bounds if bound is not None), _commit(run)]
            cells += [f"{datetime.fromtimestamp(run.started / 1000, timezone.utc):%Y-%m-%d}"]
            table.add_row(*(escape(streams.printable(cell)) for cell in (*cells, run.tags.get(NAME_TAG, ""))))
        yield table


def _place(run: Filed) -> tuple[str, str, str]:
    return run.tags[STANDARD_TAG], run.params.get("kernel", ""), run.name


def _commit(run: Filed) -> str:
    """With a plus where something was in no commit."""
    dirty = run.tags.get("git_dirty") == "true"
    return run.tags.get("git_commit", "")[:8] + ("+" if dirty else "")


def _nothing(asked: _Asked, what: str) -> int:
    print(f"{what} in {asked.location.shown} is meant by that", file=sys.stderr)
    return FAILED


def _line(run: Filed) -> str:
    return streams.printable(f"{run.params.get('kernel', '?')} {run.name} (run {run.run_id})")


if __name__ == "__main__":
    sys.exit(main())
