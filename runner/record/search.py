"""Runs of a store, read back as results: parameters, metrics and what the tags say, without samples and events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

from runner.record import reading
from runner.record.filed import Filed
from runner.record.location import Location, TrackingUnavailable
from runner.record.selection import Selection
from runner.result import clock
from runner.result.model import Cause, Diagnosis, Quality, Result, Status


def newest(
    location: Location, kernel: str, params: Mapping[str, str] = {}, tags: Mapping[str, str] = {}
) -> list[tuple[str, Result]]:
    """Run id and result of every run of a family that has these parameters and tags, the newest first; of any status.

    Nothing where the store has no such family. A SQLite file that does not exist is not made. Raises
    ``TrackingUnavailable``.
    """
    wanted = Selection((kernel,), params=_single(params), tags=_single(tags))
    return list(_results(location, wanted))[::-1]


def by_tag(location: Location, kernel: str, tag: str, values: Iterable[str]) -> dict[str, list[Result]]:
    """For each of the tag's values the results of a family that have it, the newest first; of any status.

    One question, however many values there are. As ``newest`` for what does not exist, and for what it raises.
    """
    wanted = tuple(dict.fromkeys(values))
    found: dict[str, list[Result]] = {}
    if wanted:
        for batch in reading.runs(location, Selection((kernel,), tags={tag: wanted})):
            for run in batch:
                if (result := _result(run)) is not None:
                    found.setdefault(run.tags[tag], []).insert(0, result)
    return found


def one(location: Location, run_id: str) -> Result:
    """Raises ``TrackingUnavailable``, also where there is no such run, or one that holds no result."""
    result = _result(reading.run(location, run_id))
    if result is None:
        raise TrackingUnavailable(f"run {run_id} of {location.shown} is not the run of a result")
    return result


def _results(location: Location, wanted: Selection) -> Iterator[tuple[str, Result]]:
    for batch in reading.runs(location, wanted):
        for run in batch:
            if (result := _result(run)) is not None:
                yield run.run_id, result


def _single(values: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    return {key: (value,) for key, value in values.items()}


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
