"""``python -m runner.sync [folder …] [uri=…]``: files every result that no tracker has yet, exactly once.

Without folders it looks in ``outputs/`` and ``multirun/``. Each sweep goes where it was meant to go, or to ``uri``.
Sweeps that still say RUNNING although their process is gone are closed as KILLED first. Jobs of a cluster outlive
that process: as long as some have not answered, their results and the summary are left, unless the folder is named.
Exit code 0: nothing is left; 1: something is, with the reason; 2: the command is refused.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runner import command_line
from runner.config.errors import choose_from
from runner.exit_codes import FAILED, PASSED
from runner.record import jobs, spool
from runner.record.filing import Filer, Sent, gather
from runner.record.location import Location, TrackingUnavailable, locate
from runner.record.mlflow_store import MlflowStore
from runner.record.spool import Sweep, SweepStatus
from runner.report.summary import write_report
from runner.result.clock import millis
from runner.result.document import DocumentError

USAGE = "usage: python -m runner.sync [folder …] [uri=<tracking uri>]"


@dataclass
class _Work:
    """What the command line asks for."""

    folders: list[Path]
    named: bool
    """The user named the folders: sweeps that are running or have tracking off are filed as well."""
    uri: str = ""
    filers: dict[str, Filer] = field(default_factory=dict)
    """By URI, so that a store is opened once."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; the exit code."""
    again = "interrupted; run the same command again for the rest"
    return command_line.run(__doc__, USAGE, arguments, _parse, _sync, failed=(), interrupted=again)


def _parse(words: Sequence[str]) -> _Work:
    options = {"uri": ""}
    folders = []
    for word in words:
        key, equals, value = word.partition("=")
        if equals and key in options:
            if not value:
                raise ValueError(f"{key}=: a value is missing")
            locate(value)
            options[key] = value
        elif os.path.isdir(word):
            folders.append(Path(word))
        elif equals and "/" not in key:
            raise ValueError(f"{key}: no such key; {choose_from(key, options)}")
        else:
            raise ValueError(f"{word} is not a folder")
    found = folders or [Path(name) for name in spool.DEFAULT_FOLDERS if Path(name).is_dir()]
    return _Work(found, bool(folders), options["uri"])


def _sync(work: _Work) -> int:
    failed = False
    sent = withheld = 0
    for orphan in _orphans(work.folders):
        print(f"{orphan}: belongs to no sweep (no {spool.SWEEP_FILE} above it)", file=sys.stderr)
        failed = True
    for folder in _sweeps(work.folders):
        try:
            sweep = spool.read_sweep(folder)
            pending = None if work.named else jobs.pending(folder, sweep)
            if pending is None and spool.close_stale(folder):
                print(f"{folder}: its process is gone, closed as KILLED")
                sweep = spool.read_sweep(folder)
        except DocumentError as error:
            print(error, file=sys.stderr)
            failed = True
            continue
        waiting = spool.unsent(folder)
        if not sweep.tracking and not work.named:
            withheld += len(waiting)
            continue
        if pending is not None:
            everything, waiting = waiting, pending.complete(waiting)
            print(_unanswered(folder, pending.jobs, sweep.experiments, len(everything) - len(waiting)), file=sys.stderr)
            failed = True
        running = sweep.status is SweepStatus.RUNNING
        if running and pending is None and waiting and not work.named:
            print(f"{folder}: still running, files its own results (name the folder to send them now)")
            continue
        if not waiting and (spool.is_filed(folder) or running):
            continue
        done = _one(work, folder, sweep, waiting)
        sent += len(done.run_ids)
        if done.run_ids:
            print(f"{folder}: {_results(len(done.run_ids))} filed")
        if done.problem:
            left = f"{_results(done.left)} left" if done.left else "the summary is left"
            print(f"{folder}: {left}: {done.problem}", file=sys.stderr)
            failed = True
    if not sent and not failed:
        places = ", ".join(str(folder) for folder in work.folders) or "no outputs/ or multirun/ here"
        print(f"nothing to send ({places})")
    if withheld:
        print(f"{withheld} results of sweeps with tracking off were left alone; name their folder to send them")
    return FAILED if failed else PASSED


def _results(count: int) -> str:
    return f"{count} {'result' if count == 1 else 'results'}"


def _unanswered(folder: Path, left: int, experiments: int, results: int) -> str:
    """What is left, and what to do."""
    return (
        f"{folder}: its process is gone, and {left} of its {experiments} jobs have not answered: {results} results and "
        "the summary are left. Sync again when they have ended, or, where they never will: "
        f"python -m runner.sync {shlex.quote(str(folder))}"
    )


def _sweeps(roots: Sequence[Path]) -> list[Path]:
    """The sweeps below the folders, and the one a folder itself lies in; each once."""
    found: dict[Path, None] = {}
    for root in roots:
        below = spool.sweeps(root)
        above = spool.sweep_folder(root.absolute())
        for folder in below or ([above] if above else []):
            found[folder.absolute()] = None
    return list(found)


def _orphans(roots: Sequence[Path]) -> list[Path]:
    """Results whose sweep's marker is gone."""
    return [f for root in roots for f in spool.unsent(root) if spool.sweep_folder(f.absolute()) is None]


def _one(work: _Work, folder: Path, sweep: Sweep, waiting: Sequence[Path]) -> Sent:
    """Files one sweep's results, and its summary when it has ended and nothing is left."""
    try:
        filer = _filer(work, sweep)
    except TrackingUnavailable as error:
        return Sent(left=len(waiting), problem=str(error))
    done = filer.results(folder, waiting, sweep.swept)
    if done.problem or sweep.status is SweepStatus.RUNNING or spool.is_filed(folder):
        return done
    report = folder / spool.REPORT_FOLDER
    results, _ = gather(folder, sweep.sweep_id)
    try:
        if results and not _is_of(report, sweep):
            write_report(results, report, sweep.swept)
    except (DocumentError, OSError) as error:
        done.problem = f"cannot write the report: {error}"
        return done
    if results:
        done.problem = filer.summary(folder).problem
    return done


def _is_of(report: Path, sweep: Sweep) -> bool:
    """False also for the report of a command that ran in the same folder before."""
    try:
        return report.stat().st_mtime * 1000 >= millis(sweep.started)
    except OSError:
        return False


def _filer(work: _Work, sweep: Sweep) -> Filer:
    """The store a sweep goes to. Raises ``TrackingUnavailable`` when only a password would tell."""
    uri = work.uri or sweep.tracking_uri
    location: Location = locate(uri)
    if not work.uri and "***" in location.uri:
        raise TrackingUnavailable(f"{location.uri} needs its password, which is not kept: give uri=…")
    if location.uri not in work.filers:
        work.filers[location.uri] = Filer(MlflowStore(location))
    return work.filers[location.uri]


if __name__ == "__main__":
    sys.exit(main())
