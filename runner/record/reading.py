"""Runs read from any store, by what they say: from a database's tables, or through a server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache

from runner.record import probe, tables
from runner.record.filed import Filed, Only
from runner.record.location import Location, TrackingUnavailable
from runner.record.mlflow_store import MlflowStore
from runner.record.selection import Selection


def exists(location: Location) -> bool:
    """False for a SQLite file that is not there."""
    return location.kind != "sqlite" or os.path.isfile(location.database)


def require(location: Location, advice: str = "give uri=") -> None:
    """Raises ``TrackingUnavailable`` with the advice for a SQLite file that is not there."""
    if not exists(location):
        raise TrackingUnavailable(f"there is no store at {location.shown}: {advice}")


def runs(location: Location, selection: Selection, only: Only | None = None) -> Iterator[list[Filed]]:
    """The runs that are meant, in batches. By start and run id, the oldest first, however many questions to the store
    that takes: a server is asked for several values one by one.

    ``only`` spares a database what is not looked at; a server gives everything.
    Nothing where a SQLite file does not exist; it is not made. Raises ``TrackingUnavailable``.
    """
    if not exists(location):
        return
    if location.kind == "server":
        yield from _opened(location).search(selection)
        return
    probe.check_readable(location)
    try:
        yield from tables.runs(location, selection, only)
    except Exception as error:  # each database's driver raises its own kinds
        raise TrackingUnavailable(probe.explain(location, error)) from None


def run(location: Location, run_id: str) -> Filed:
    """One run by its id. Raises ``TrackingUnavailable``, also where there is none."""
    if not exists(location):
        raise TrackingUnavailable(f"{location.shown} does not exist")
    if location.kind == "server":
        return _opened(location).run(run_id)
    for batch in runs(location, Selection(runs=(run_id,))):
        return batch[0]
    raise TrackingUnavailable(f"{location.shown} has no run {run_id}")


@lru_cache(maxsize=4)
def _opened(location: Location) -> MlflowStore:
    store = MlflowStore(location)
    store.open()
    return store
