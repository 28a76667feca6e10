"""Runs found again in a real store."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.record import search
from runner.record.location import Location, TrackingUnavailable, locate
from runner.record.mlflow_store import MlflowStore
from runner.result.model import Cause, Diagnosis, Quality, Status
from tests.record.conftest import spooled
from tests.synthetic import result


def test_runs_are_found_by_their_parameters_the_newest_first(
    store: MlflowStore, location: Location, tmp_path: Path
) -> None:
    several = [
        result("q8", batch=batch, index=index, started=f"2026-03-0{1 + index}T00:00:00.000+00:00")
        for index, batch in enumerate((1, 2, 1))
    ]
    ids = [store.file(one, folder) for one, folder in zip(several, spooled(tmp_path, several), strict=True)]
    found = search.newest(location, "kv_quant", {"B": "1", "gpu": "h200"})
    assert [run for run, _ in found] == [ids[2], ids[0]]
    (_, newest), _ = found
    assert (newest.id, newest.kernel, newest.variant) == (several[2].id, "kv_quant", "q8")
    assert newest.params["T"] == "32768" and newest.gpu == "h200"
    assert newest.metrics["time_us"] == several[2].metrics["time_us"]
    assert (newest.status, newest.experiment_id) == (Status.PASSED, several[2].experiment_id)
    assert newest.started == several[2].started
    assert search.newest(location, "kv_quant", {"B": "3"}) == []
    assert search.newest(location, "nobody", {}) == []


def test_one_run_tells_status_quality_and_cause(store: MlflowStore, location: Location, tmp_path: Path) -> None:
    cause = Cause("some", "launches", "sure")
    made = result(status=Status.INCORRECT, diagnosis=Diagnosis("launches", "sure", [cause]))
    made.quality = Quality.THROTTLED
    (folder,) = spooled(tmp_path, [made])
    found = search.one(location, store.file(made, folder))
    assert (found.status, found.quality, found.diagnosis.bound) == (
        Status.INCORRECT, Quality.THROTTLED, "launches",
    )  # fmt: skip
    with pytest.raises(TrackingUnavailable, match="nothing"):
        search.one(location, "nothing")


def test_a_store_that_does_not_exist_is_not_made(tmp_path: Path) -> None:
    absent = locate("", tmp_path)
    assert search.newest(absent, "kv_quant", {}) == []
    with pytest.raises(TrackingUnavailable, match="does not exist"):
        search.one(absent, "0" * 32)
    assert not absent.database.exists()
