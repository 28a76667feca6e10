"""Words of a command line → the measured runs of one side of a comparison.

run:<id>[,<id>]     runs of the store            (or 32 hexadecimal digits)
sweep:<id>          all of one command           (or an id as it is printed)
commit:<name>       all of a git commit          (or the beginning of its hash, or a tag or branch of git)
tag:<key>=<value>   all that have a tag in MLflow
file:<path>         result.json, a folder that holds some, or a table of runner.export   (or the path)
last-green          the newest command before the other side that measured the same and in which everything passed
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from runner.paths import given, project_dir
from runner.record import exported, fields, reading
from runner.record.columns import form_of
from runner.record.filed import Filed
from runner.record.location import Location
from runner.record.measured import LOOKED_AT, of_run
from runner.record.selection import Selection, select
from runner.report.comparison import load
from runner.result.commit import commit_of
from runner.result.document import DocumentError
from runner.result.model import Status
from runner.verdict import of_result
from runner.verdict.model import Measured

LAST_GREEN = "last-green"
FORMS = "run:<id>, sweep:<id>, commit:<hash or name>, tag:<key>=<value>, file:<path> or last-green"
_HEX = re.compile(r"[0-9a-fA-F]+")
_SWEEP = re.compile(r"\d{4}-?\d{2}-?\d{2}[-_][\w.-]+")
_RUN_ID = 32


@dataclass(frozen=True)
class Side:
    """One side, read. There is at least one run."""

    words: str
    """As they were given, with what they stand for where that is not plain."""
    runs: tuple[Measured, ...]


def read(key: str, words: str, location: Location, also: Selection, other: Side | None = None) -> Side:
    """The runs that ``key=words`` means (``baseline=commit:1a2b3c4``) and for which ``also`` holds.

    ``other`` is the candidate, before which ``last-green`` looks. Raises ``ValueError`` with one line for words that
    mean nothing, or no run; ``TrackingUnavailable`` where the store cannot be read.
    """
    try:
        if words == LAST_GREEN:
            return _last_green(location, also, other)
        form, value = _form(words)
        if form == "file":
            found = tuple(_of_files(given(value), also))
        else:
            found = tuple(_of_store(location, _meant(form, value, also)))
    except (ValueError, DocumentError) as error:
        raise ValueError(f"{key}={words}: {error}") from None
    if not found:
        limited = " (with what else is asked for)" if also != Selection() else ""
        where = "" if form == "file" else f" in {location.shown}"
        raise ValueError(f"{key}={words}: no such run{where}{limited}")
    return Side(words, found)


def _form(words: str) -> tuple[str, str]:
    """What kind of side it is, and its value. Raises ``ValueError``."""
    form, colon, value = words.partition(":")
    if colon and form in ("run", "sweep", "commit", "tag", "file"):
        if not value:
            raise ValueError(f"a value is missing; write {FORMS}")
        return form, value
    ids = words.split(",")
    if all(_HEX.fullmatch(one) and len(one) == _RUN_ID for one in ids):
        return "run", words
    if os.path.exists(given(words)):
        return "file", words
    if _HEX.fullmatch(words):
        return "commit", words
    if found := commit_of(project_dir(), words):
        return "commit", found
    if _SWEEP.fullmatch(words):
        return "sweep", words
    raise ValueError(f"neither a file nor a commit that is known here; write {FORMS}")


def _meant(form: str, value: str, also: Selection) -> Selection:
    """The runs of the store that a side means, of those that are meant anyway. Raises ``ValueError``."""
    if form == "tag":
        name, equals, wanted = value.partition("=")
        if not (name and equals and wanted):
            raise ValueError("write tag:<key>=<value>")
        form, value = f"tag.{name}", wanted
    own = select({form: value})
    taken = [name for name in own.tags if name in also.tags]
    if taken or (own.runs and also.runs) or (own.commits and also.commits):
        raise ValueError(f"{form}= is given for both sides, too; leave it out there")
    return replace(
        also, runs=own.runs or also.runs, commits=own.commits or also.commits, tags={**also.tags, **own.tags}
    )


def _of_store(location: Location, wanted: Selection) -> Iterator[Measured]:
    for batch in reading.runs(location, wanted, LOOKED_AT):
        yield from _measured(batch)


def _measured(runs: Iterable[Filed]) -> Iterator[Measured]:
    return (found for found in map(of_run, runs) if found is not None)


def _of_files(path: Path, also: Selection) -> Iterator[Measured]:
    """Raises ``ValueError`` and ``DocumentError`` that name the file."""
    if os.path.isfile(path) and path.suffix != ".json":
        _check_ending(path)
        for run in exported.runs(path):
            if _holds(also, run):
                yield from _measured([run])
        return
    for result in load(path).results:
        start, end = fields.times(result)
        run = Filed(result.id, fields.params(result), {}, fields.tags(result), start, end)
        if _holds(also, run):
            yield of_result.measured(result)


def _check_ending(path: Path) -> None:
    """Raises ``ValueError``."""
    try:
        form_of(path)
    except ValueError:
        raise ValueError("a file must end in .json (a result), .parquet or .csv (tables of runner.export)") from None


def _holds(also: Selection, run: Filed) -> bool:
    return also.holds(run) and (not also.kernels or run.params.get("kernel") in also.kernels)


def _last_green(location: Location, also: Selection, other: Side | None) -> Side:
    """The newest command before ``other`` that measured the same families on the same devices, with an experiment in
    common, and whose results all passed or were skipped. Raises ``ValueError``."""
    if other is None:
        raise ValueError("only a baseline can be the last green one: it is what came before the candidate")
    kernels = {one.kernel for one in other.runs}
    devices = {(one.backend, one.device) for one in other.runs if one.time_us}
    wanted = {one.configuration for one in other.runs}
    start = min(one.started for one in other.runs)
    before = min(start, also.before) if also.before else start
    sweeps: dict[str, list[Measured]] = {}
    for one in _of_store(location, replace(also, kernels=tuple(sorted(kernels)), before=before)):
        sweeps.setdefault(one.sweep_id, []).append(one)
    sweeps.pop("", None)
    for sweep, runs in sorted(sweeps.items(), key=lambda item: -max(one.started for one in item[1])):
        same = {one.kernel for one in runs} == kernels and devices <= {(one.backend, one.device) for one in runs}
        common = any(one.configuration in wanted for one in runs)
        if same and common and _green(_of_store(location, Selection(tags={"sweep_id": (sweep,)}))):
            return Side(f"{LAST_GREEN} (sweep {sweep})", tuple(runs))
    families = ", ".join(sorted(kernels))
    raise ValueError(f"no earlier command measured the same of {families} on the same devices with everything passed")


def _green(runs: Iterable[Measured]) -> bool:
    statuses = {one.status for one in runs}
    return Status.PASSED in statuses and statuses <= {Status.PASSED, Status.SKIPPED}
