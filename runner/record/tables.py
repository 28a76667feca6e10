"""Reads runs straight from MLflow's tables: a search through its client loads whole objects, sorts all that matches
anew for every page, and begins with seconds of imports. Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from runner.record.filed import Filed, Only
from runner.record.location import Location
from runner.record.selection import COMMIT, Selection

if TYPE_CHECKING:
    from sqlalchemy import Connection, Select

BATCH = 500
"""Runs whose values are read at once."""
MOST_VALUES = 200
"""Of one tag or parameter as part of a query; with more of them all values are read and compared here. Databases limit
what a query can hold, and asking in parts would read the same rows for each part."""


def runs(location: Location, selection: Selection, only: Only | None = None) -> Iterator[list[Filed]]:
    """The runs that are meant, in batches, by start and run id; with ``only`` these tags and metrics, beside those that
    the selection looks at. Raises whatever SQLAlchemy raises."""
    import sqlalchemy

    wanted: dict[str, Sequence[str]] = {}
    if only is not None:
        wanted = {"tags": [*only.tags, *selection.tags, COMMIT], "latest_metrics": only.metrics}
    engine = sqlalchemy.create_engine(location.uri, poolclass=sqlalchemy.NullPool)
    with engine.connect() as connection:
        rows = connection.execute(_chosen(selection)).all()
        for key, values, table in _long(selection):
            kept = _having(connection, table, key, frozenset(values))
            rows = [row for row in rows if row.run_uuid in kept]
        for first in range(0, len(rows), BATCH):
            batch = [run for run in _filed(connection, rows[first : first + BATCH], wanted) if selection.holds(run)]
            if batch:
                yield batch


def _table(name: str, *columns: str) -> Any:
    import sqlalchemy

    return sqlalchemy.table(name, *[sqlalchemy.column(column) for column in columns])


def _values(name: str) -> Any:
    """``tags``, ``params`` and ``latest_metrics`` are laid out alike."""
    return _table(name, "run_uuid", "key", "value")


def _chosen(selection: Selection) -> Select[Any]:
    """The rows of ``runs`` that are meant, as far as a query of bounded size can say."""
    import sqlalchemy

    run = _table(
        "runs",
        "run_uuid",
        "name",
        "experiment_id",
        "status",
        "start_time",
        "end_time",
        "lifecycle_stage",
        "artifact_uri",
    )
    family = _table("experiments", "experiment_id", "name")
    query = sqlalchemy.select(
        run.c.run_uuid, run.c.name, run.c.status, run.c.start_time, run.c.end_time, run.c.artifact_uri
    )
    query = query.where(run.c.lifecycle_stage == "active").order_by(run.c.start_time, run.c.run_uuid)
    if selection.kernels:
        ids = sqlalchemy.select(family.c.experiment_id).where(family.c.name.in_(selection.kernels))
        query = query.where(run.c.experiment_id.in_(ids))
    if selection.runs and len(selection.runs) <= MOST_VALUES:
        query = query.where(run.c.run_uuid.in_(selection.runs))
    if selection.after:
        query = query.where(run.c.start_time >= selection.after)
    if selection.before:
        query = query.where(run.c.start_time < selection.before)
    for table, wanted in (("tags", selection.tags), ("params", selection.params)):
        for key, values in wanted.items():
            if len(values) <= MOST_VALUES:
                one = _values(table)
                having = sqlalchemy.select(one.c.run_uuid).where(one.c.key == key, one.c.value.in_(values))
                query = query.where(run.c.run_uuid.in_(having))
    if selection.commits:
        tag = _values("tags")
        begins = sqlalchemy.or_(*[tag.c.value.startswith(commit, autoescape=True) for commit in selection.commits])
        query = query.where(run.c.run_uuid.in_(sqlalchemy.select(tag.c.run_uuid).where(tag.c.key == COMMIT, begins)))
    return query


def _long(selection: Selection) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Key, values and table of the parts that no query of bounded size can say."""
    for table, wanted in (("tags", selection.tags), ("params", selection.params)):
        for key, values in wanted.items():
            if len(values) > MOST_VALUES:
                yield key, values, table


def _having(connection: Connection, table: str, key: str, values: frozenset[str]) -> set[str]:
    import sqlalchemy

    one = _values(table)
    found = connection.execute(sqlalchemy.select(one.c.run_uuid, one.c.value).where(one.c.key == key))
    return {run_id for run_id, value in found if value in values}


def _filed(connection: Connection, rows: Sequence[Any], wanted: Mapping[str, Sequence[str]]) -> list[Filed]:
    """One batch with its values: of a table in ``wanted`` these keys, of another all."""
    ids = [row.run_uuid for row in rows]
    made = {
        row.run_uuid: Filed(
            run_id=row.run_uuid, params={}, metrics={}, tags={}, started=row.start_time or 0, ended=row.end_time or 0,
            name=row.name or "", status=row.status or "", artifacts=row.artifact_uri or "",
        )
        for row in rows
    }  # fmt: skip
    for run_id, key, value in _all_values(connection, "params", ids, wanted.get("params")):
        made[run_id].params[key] = value
    for run_id, key, value in _all_values(connection, "tags", ids, wanted.get("tags")):
        made[run_id].tags[key] = value
    for run_id, key, value in _all_values(connection, "latest_metrics", ids, wanted.get("latest_metrics")):
        made[run_id].metrics[key] = value
    return list(made.values())


def _all_values(connection: Connection, table: str, ids: Sequence[str], keys: Sequence[str] | None) -> Any:
    import sqlalchemy

    one = _values(table)
    query = sqlalchemy.select(one.c.run_uuid, one.c.key, one.c.value).where(one.c.run_uuid.in_(ids))
    if keys is not None:
        query = query.where(one.c.key.in_(keys))
    if table == "latest_metrics":
        query = query.where(sqlalchemy.column("is_nan", sqlalchemy.Boolean).is_(False))  # its value is then a 0
    return connection.execute(query).all()  # row by row takes three times as long
