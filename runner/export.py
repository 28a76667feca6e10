"""``python -m runner.export [out=<file>.parquet|.csv] [<key>=<value>,… …] [uri=…]``: runs as a table, a row for each.

Which runs: kernel, variant, model, shape, gpu, backend, status, quality, sweep, study, host, run (ids), commit
(beginnings of hashes), after and before (2026-01-31, or an age: 12h, 30d, 8w), param.<name>, tag.<name>. Several values
of a key are joined by commas, and one suffices; all keys must hold. Without any, every run.

Rows by start, the oldest first; columns and their types: docs/store.md. Without out= the table is printed as CSV.
Exit code 0: written; 1: no such runs, or the store cannot be read; 2: the command is refused.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runner import command_line, streams
from runner.exit_codes import FAILED, PASSED
from runner.paths import given
from runner.record import columns, reading
from runner.record.columns import Table
from runner.record.location import Location, locate
from runner.record.selection import Selection, pairs, select

USAGE = "usage: python -m runner.export [out=<file>.parquet|.csv] [<key>=<value>,… …] [uri=<tracking uri>]"
_OWN = ("out", "uri")


@dataclass(frozen=True)
class _Asked:
    """What the command line says."""

    location: Location
    selection: Selection
    path: Path | None


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; the exit code."""
    nothing = "interrupted; nothing was written"
    return command_line.run(__doc__, USAGE, arguments, _parse, _written, interrupted=nothing, outlive=False)


def _parse(words: Sequence[str]) -> _Asked:
    options = pairs(words, _OWN)
    out, location = options.pop("out", ""), locate(options.pop("uri", ""))
    path = given(out) if out else None
    if path is not None:
        columns.form_of(path)
    return _Asked(location, select(options), path)


def _written(asked: _Asked) -> int:
    try:
        return _export(asked.location, asked.selection, asked.path)
    except BrokenPipeError:  # whoever read the table has seen enough
        streams.silence()
        return PASSED
    except OSError as error:
        what = f"out={asked.path}" if asked.path else "the table"
        streams.complain(f"{what} cannot be written: {error.strerror or error}")
        return FAILED


def collect(location: Location, selection: Selection) -> Table:
    """The results that are meant; runs that hold none, a command's summary or somebody else's, are left out. Raises
    ``TrackingUnavailable``."""
    table = Table()
    for batch in reading.runs(location, selection):
        if results := [run for run in batch if run.tags.get("kind") == "result"]:
            table.add(results)
    return table


def _export(location: Location, selection: Selection, path: Path | None) -> int:
    reading.require(location, "give uri=, or run an experiment first")
    table = collect(location, selection)
    if not table.rows:
        print(f"no run in {location.shown} is meant by that; nothing was written", file=sys.stderr)
        return FAILED
    if path is None:
        table.write(sys.stdout.buffer, "csv")
        sys.stdout.flush()
        return PASSED
    write(table, path)
    print(f"{path}: {table.rows} {'run' if table.rows == 1 else 'runs'}")
    return PASSED


def write(table: Table, path: Path) -> None:
    """The whole file or none. Raises ``OSError``."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            table.write(file, columns.form_of(path))
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
