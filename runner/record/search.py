"""Runs of a store, read back as results: parameters, metrics and what the tags say, without samples and events."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any

from runner.record.filed import Filed
from runner.record.location import Location, TrackingUnavailable
from runner.record.mlflow_store import MlflowStore
from runner.result import clock
from runner.result.model import Cause, Diagnosis, Quality, Result, Status


def newest(
    location: Location, kernel: str, params: Mapping[str, str] = {}, tags: Mapping[str, str] = {}
) -> list[tuple[str, Result]]:
    """Run id and result of every run of a family that has these parameters and tags, the newest first; of any status.

    Nothing where the store has no such family. A SQLite file that does not exist is not made. Raises
    ``TrackingUnavailable``.
    """
    if not _exists(location):
        return []
    found = ((run.run_id, _result(run)) for run in _opened(location).search(kernel, params, tags))
    return [(run_id, result) for run_id, result in found if result is not None]


def one(location: Location, run_id: str) -> Result:
    """Raises ``TrackingUnavailable``, also where there is no such run, or one that holds no result."""
    if not _exists(location):
        raise TrackingUnavailable(f"{location.shown} does not exist")
    result = _result(_opened(location).run(run_id))
    if result is None:
        raise TrackingUnavailable(f"run {run_id} of {location.shown} is not the run of a result")
    return result


def _exists(location: Location) -> bool:
    return location.kind != "sqlite" or location.database.is_file()


@lru_cache(maxsize=4)
def _opened(location: Location) -> MlflowStore:
    store = MlflowStore(location)
    store.open()
    return store


def _result(run: Filed) -> Result | None:
    """What a run says; None for a command's summary and for what others have filed."""
    tags, params = run.tags, run.params
    try:
        status, quality = Status(tags.get("status", "")), Quality(tags.get("quality", ""))
    except ValueError:
        return None
    values: dict[str, Any] = {key: params.get(key, "") for key in ("backend", "model", "shape", "gpu")}
    bound, confidence = tags.get("bound", ""), tags.get("bound_confidence", "")
    causes = [Cause(rule="", bound=bound, confidence=confidence)] if bound else []
    return Result(
        id=tags.get("result_id", ""),
        kernel=params.get("kernel", ""),
        variant=params.get("variant", ""),
        status=status,
        quality=quality,
        message=tags.get("message", ""),
        sweep_id=tags.get("sweep_id", ""),
        experiment_id=tags.get("experiment_id", ""),
        phase=tags.get("phase", ""),
        params=params,
        metrics=run.metrics,
        diagnosis=Diagnosis(bound, confidence, causes),
        overrides=tags.get("overrides", "").split(),
        repeat=tags.get("repeat", ""),
        started=clock.written(datetime.fromtimestamp(run.started / 1000, timezone.utc)),
        **values,
    )
