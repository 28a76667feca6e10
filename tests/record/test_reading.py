"""Runs read from a store's tables and through MLflow's client: the same runs, whatever is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.record import reading, tables
from runner.record.filed import Filed, Only
from runner.record.location import Location, TrackingUnavailable, locate
from runner.record.mlflow_store import MlflowStore
from runner.record.selection import Selection
from runner.result.model import Status
from tests.record.conftest import spooled
from tests.synthetic import ENVIRONMENT, result


@pytest.fixture
def filled(store: MlflowStore, tmp_path: Path) -> list[str]:
    """Ids of six runs: two commits, three variants, one failed."""
    made = []
    for index, variant in enumerate(("fp32", "fp16", "q8") * 2):
        commit = {"git_commit": "aaaa1111" if index < 3 else "bbbb2222", "fingerprint": f"f{index}"}
        one = result(variant, index=index, status=Status.TIMEOUT if index == 4 else Status.PASSED)
        one.environment = {**ENVIRONMENT, **commit}
        one.sweep_id, one.started = f"sweep {index // 3}", f"2026-03-01T12:00:0{index}.000+00:00"
        made.append(one)
    return [store.file(one, folder) for one, folder in zip(made, spooled(tmp_path, made), strict=True)]


def found(batches: object) -> list[Filed]:
    return [run for batch in batches for run in batch]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(), [0, 1, 2, 3, 4, 5]),
        (Selection(("kv_quant",), params={"variant": ("fp32", "q8")}), [0, 2, 3, 5]),
        (Selection(("nobody",)), []),
        (Selection(commits=("bbbb",), tags={"status": ("PASSED",)}), [3, 5]),
        (Selection(commits=("aaaa", "bbbb2", "bbbb2222")), [0, 1, 2, 3, 4, 5]),
        (Selection(tags={"sweep_id": ("it's",)}), []),
        (Selection(tags={"fingerprint": ("f5", *(f"none{n}" for n in range(tables.MOST_VALUES)), "f1")}), [1, 5]),
    ],
)
def test_tables_and_client_find_the_same(
    store: MlflowStore, location: Location, filled: list[str], selection: Selection, expected: list[int]
) -> None:
    read = found(reading.runs(location, selection))
    assert [run.run_id for run in read] == [filled[index] for index in expected]
    asked = found(store.search(selection))
    assert asked == read


def test_what_nobody_looks_at_is_left_out(location: Location, filled: list[str]) -> None:
    chosen = Selection(commits=("bbbb",), tags={"status": ("PASSED",)})
    read = found(reading.runs(location, chosen, Only(tags=("fingerprint",), metrics=("time_us",))))
    whole = found(reading.runs(location, chosen))
    assert [run.run_id for run in read] == [filled[3], filled[5]]
    assert set(read[0].tags) == {"fingerprint", "status", "git_commit"} and set(read[0].metrics) == {"time_us"}
    assert [run.params for run in read] == [run.params for run in whole]


def test_a_part_of_time(location: Location, filled: list[str]) -> None:
    start = found(reading.runs(location, Selection()))[0].started
    read = found(reading.runs(location, Selection(after=start + 1000, before=start + 3000)))
    assert [run.run_id for run in read] == filled[1:3]


def test_batches_hold_everything_in_order(
    location: Location, filled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "BATCH", 4)
    batches = list(reading.runs(location, Selection()))
    assert [len(batch) for batch in batches] == [4, 2]
    assert [run.run_id for run in found(batches)] == filled


def test_reading_needs_no_right_to_write_and_makes_nothing(location: Location, tmp_path: Path) -> None:
    absent = locate("sqlite:///none.db", tmp_path)
    assert list(reading.runs(absent, Selection())) == [] and not absent.database.exists()
    with pytest.raises(TrackingUnavailable, match="has no run nothing"):
        reading.run(location, "nothing")


def test_a_database_of_others_is_one_line(tmp_path: Path) -> None:
    import sqlite3

    with sqlite3.connect(tmp_path / "other.db") as database:
        database.execute("create table things (name text)")
    with pytest.raises(TrackingUnavailable, match=r"is a database without MLflow.s tables") as caught:
        list(reading.runs(locate("sqlite:///other.db", tmp_path), Selection()))
    assert "\n" not in str(caught.value)
