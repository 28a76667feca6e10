"""Words of one side → its runs: from the store, from files, and from what came before; and what is refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner import export
from runner.record import reading, selection, sides
from runner.record.filed import Filed
from runner.record.location import Location
from runner.record.measured import LOOKED_AT, of_run
from runner.record.mlflow_store import MlflowStore
from runner.record.selection import Selection, select
from runner.record.sides import Side
from runner.result.document import write
from runner.result.model import Result, Status
from runner.verdict import of_result
from runner.verdict.model import Measured
from tests.record.conftest import spooled
from tests.synthetic import ENVIRONMENT, result

COMMITS = [letter * 40 for letter in "abc"]
BOUNDS = {"time_us_low": 0.99, "time_us_high": 1.01, "time_us_q1": 0.98, "time_us_q3": 1.02}
"""Of interval and middle half, as shares of the time."""


def made(number: int, variant: str = "q8", **changes: Any) -> Result:
    """Of the command ``number``, with a commit of its own."""
    one = result(
        variant,
        index=10 * number + len(variant),
        sweep_id=f"20260301-12000{number}-000000-1",
        started=f"2026-03-0{1 + number}T12:00:00.000+00:00",
        environment={**ENVIRONMENT, "git_commit": COMMITS[number], "device": {"name": "NVIDIA H200"}},
    )
    one.metrics |= {name: one.metrics["time_us"] * share for name, share in BOUNDS.items()}
    return dataclasses.replace(one, **changes)


@pytest.fixture
def filed(location: Location, store: MlflowStore, tmp_path: Path) -> dict[tuple[int, str], str]:
    """Three commands of two variants; q8 fails in the second. Run ids."""
    ids = {}
    for number in range(3):
        results = [made(number, "fp32"), made(number)]
        if number == 1:
            results[1] = dataclasses.replace(results[1], status=Status.INCORRECT)
        for one, folder in zip(results, spooled(tmp_path / str(number), results), strict=True):
            ids[number, one.variant] = store.file(one, folder)
    return ids


@pytest.fixture
def read(location: Location) -> Callable[..., Side]:
    def reader(words: str, also: Selection | None = None, other: Side | None = None) -> Side:
        return sides.read("baseline", words, location, also or Selection(), other)

    return reader


def which(side: Side) -> list[tuple[str, str]]:
    return sorted((one.commit[:1], one.variant) for one in side.runs)


@pytest.mark.parametrize(
    ("words", "runs"),
    [
        ("commit:cccc", [("c", "fp32"), ("c", "q8")]),
        ("CCCCC", [("c", "fp32"), ("c", "q8")]),
        ("sweep:20260301-120000-000000-1", [("a", "fp32"), ("a", "q8")]),
        ("20260301-120000-000000-1", [("a", "fp32"), ("a", "q8")]),
        ("tag:status=INCORRECT", [("b", "q8")]),
    ],
)
def test_runs_of_the_store(
    filed: dict[tuple[int, str], str], read: Callable[..., Side], words: str, runs: list[tuple[str, str]]
) -> None:
    assert which(read(words)) == runs


def test_run_ids_with_and_without_their_name(filed: dict[tuple[int, str], str], read: Callable[..., Side]) -> None:
    ids = [filed[0, "q8"], filed[2, "q8"]]
    assert which(read(",".join(ids))) == which(read(f"run:{ids[1]},{ids[0]}")) == [("a", "q8"), ("c", "q8")]
    assert [one.run_id for one in read(ids[0]).runs] == ids[:1]


def test_what_holds_for_both_sides_narrows(filed: dict[tuple[int, str], str], read: Callable[..., Side]) -> None:
    assert which(read("commit:aaaa", select({"variant": "fp32"}))) == [("a", "fp32")]
    with pytest.raises(ValueError, match=r"commit= is given for both sides, too; leave it out there"):
        read("commit:aaaa", select({"commit": "bbbb"}))
    with pytest.raises(ValueError, match=r"no such run in .* \(with what else is asked for\)"):
        read("commit:aaaa", select({"variant": "q4"}))


def test_a_name_of_git_is_a_commit(
    filed: dict[tuple[int, str], str], read: Callable[..., Side], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (sides, selection):
        monkeypatch.setattr(module, "commit_of", lambda _, name: {"v1.0": COMMITS[2]}.get(name, ""))
    assert which(read("v1.0")) == which(read("commit:v1.0")) == which(read("commit:cccc"))
    with pytest.raises(ValueError, match=r"baseline=commit:v2: commit=v2: must be 4 to 40 .* or a name"):
        read("commit:v2")


def test_the_last_green_one_is_the_newest_in_which_everything_passed(
    filed: dict[tuple[int, str], str], read: Callable[..., Side]
) -> None:
    candidate = read("commit:cccc", select({"variant": "fp32"}))
    green = read("last-green", select({"variant": "fp32"}), candidate)
    assert which(green) == [("a", "fp32")]
    assert green.words == "last-green (sweep 20260301-120000-000000-1)"
    with pytest.raises(ValueError, match=r"no earlier command measured the same of kv_quant on the same devices"):
        read("last-green", other=read("commit:aaaa"))
    with pytest.raises(ValueError, match=r"only a baseline can be the last green one"):
        read("last-green")


def test_the_last_green_one_is_of_the_same_device(
    location: Location, store: MlflowStore, tmp_path: Path, read: Callable[..., Side]
) -> None:
    other = {**ENVIRONMENT, "git_commit": COMMITS[0], "device": {"name": "NVIDIA H100"}}
    for one in (made(0), made(1, environment=other), made(2)):
        (folder,) = spooled(tmp_path / one.id, [one])
        store.file(one, folder)
    assert which(read("last-green", other=read("commit:cccc"))) == [("a", "q8")]


def test_the_last_green_one_has_an_experiment_in_common(
    store: MlflowStore, tmp_path: Path, read: Callable[..., Side]
) -> None:
    between = made(1)
    between.params |= {"T": 1, "context": 1}
    for one in (made(0), between, made(2)):
        (folder,) = spooled(tmp_path / one.id, [one])
        store.file(one, folder)
    assert which(read("last-green", other=read("commit:cccc"))) == [("a", "q8")]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_store_table_and_document_say_the_same(
    location: Location, store: MlflowStore, tmp_path: Path, read: Callable[..., Side], form: str
) -> None:
    one = made(0, flags=["first_outlier", "drift"])
    one.params |= {"alpha": 1e-05, "beta": 0.5, "code": "007", "seed": 18446744073709551615}
    (folder,) = spooled(tmp_path / "one", [one])
    store.file(one, folder)
    table = tmp_path / f"it's.{form}"
    assert export.main([f"uri={location.uri}", f"out={table}"]) == 0
    (of_store,) = read("commit:aaaa").runs
    (of_table,) = read(f"file:{table}").runs
    (of_file,) = read(str(tmp_path / "one")).runs
    assert of_table == of_store
    assert dataclasses.replace(of_store, run_id="") == of_file == of_result.measured(one)


def test_all_that_is_looked_at_is_asked_for(location: Location, store: MlflowStore, tmp_path: Path) -> None:
    one = made(0, flags=["drift"], message="row 3")
    one.metrics |= {"trials": 3.0, "time_us_trials_rsd": 0.01, "sm_clock_mhz": 1980.0}
    one.environment |= {"fingerprint": "f" * 64}
    (folder,) = spooled(tmp_path / "one", [one])
    run_id = store.file(one, folder)
    ((less,),) = reading.runs(location, Selection(runs=(run_id,)), LOOKED_AT)
    assert of_run(less) == of_run(store.run(run_id))


def test_files_are_narrowed_as_runs_are(tmp_path: Path, read: Callable[..., Side]) -> None:
    spooled(tmp_path / "both", [made(0), made(0, "fp32")])
    assert which(read(f"file:{tmp_path / 'both'}", select({"variant": "q8"}))) == [("a", "q8")]
    with pytest.raises(ValueError, match="no such run"):
        read(str(tmp_path / "both"), select({"kernel": "sync"}))


def older(run: Filed) -> Filed:
    """As runs were filed before they said how they were timed."""
    tags = {key: value for key, value in run.tags.items() if key not in ("time_method", "time_mode", "flags")}
    metrics = {key: value for key, value in run.metrics.items() if key not in BOUNDS}
    return dataclasses.replace(run, tags=tags, metrics=metrics)


def test_an_older_run_is_read_from_its_document(location: Location, store: MlflowStore, tmp_path: Path) -> None:
    one = made(0, flags=["drift"])
    (folder,) = spooled(tmp_path / "one", [one])
    run = older(store.run(store.file(one, folder)))
    found = of_run(run)
    assert found is not None and (found.method, found.mode, found.flags) == ("cuda_events", "cold", ("drift",))
    assert (found.low, found.high, found.q1, found.q3) == tuple(one.metrics[name] for name in BOUNDS)
    gone = of_run(dataclasses.replace(run, artifacts="mlflow-artifacts:/1/x/artifacts"))
    assert isinstance(gone, Measured) and (gone.method, gone.low) == ("", None)


def test_what_holds_no_result_is_left_out() -> None:
    run = Filed("r", {}, {}, {"status": "PASSED", "quality": "OK", "kind": "result"}, 1, status="FINISHED")
    assert of_run(run) is not None
    assert of_run(dataclasses.replace(run, tags={**run.tags, "kind": "summary"})) is None
    assert of_run(dataclasses.replace(run, tags={})) is None
    assert of_run(dataclasses.replace(run, status="RUNNING")) is None


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("nonsense", "baseline=nonsense: neither a file nor a commit that is known here; write run:<id>, sweep:<id>"),
        ("run:", "a value is missing; write run:<id>"),
        ("run:" + 32 * "0", "no such run in sqlite:"),
        ("deadbeef", "no such run in sqlite:"),
        ("tag:status", "write tag:<key>=<value>"),
        ("file:/no/such/folder", "/no/such/folder: there is no such file or folder"),
        ("x" * 5000, "neither a file nor a commit"),
    ],
)
def test_words_that_mean_nothing_are_one_line(read: Callable[..., Side], words: str, told: str) -> None:
    with pytest.raises(ValueError) as refused:
        read(words)
    assert told in str(refused.value) and "\n" not in str(refused.value)


def test_files_that_cannot_be_read_are_one_line(tmp_path: Path, read: Callable[..., Side]) -> None:
    path = write(made(0), tmp_path / "one")
    path.write_text(path.read_text(encoding="utf-8").replace('"schema_version": ', '"schema_version": 9'))
    foreign, broken, text = (tmp_path / name for name in ("foreign.csv", "broken.parquet", "notes.txt"))
    foreign.write_text("a,b\n1,2\n")
    broken.write_text("no")
    text.write_text("no")
    for given, told in (
        (path, "is newer than the one this runner reads"),
        (foreign, "is no table of python -m runner.export: it has no column run_id"),
        (broken, "cannot read "),
        (text, "notes.txt: a file must end in .json (a result), .parquet or .csv"),
    ):
        with pytest.raises(ValueError) as refused:
            read(str(given))
        assert told in str(refused.value) and "\n" not in str(refused.value)
