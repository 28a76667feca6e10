"""``python -m runner.prune``: says what would go, removes it with its files, and leaves everything else."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from runner import prune, sync
from runner.record import pruning, reading, spool
from runner.record.filed import Filed
from runner.record.location import Location, TrackingUnavailable, locate
from runner.record.mlflow_store import MlflowStore
from runner.record.recorder import Recorder
from runner.record.selection import Selection
from runner.record.spool import Sweep, SweepStatus
from tests.record.conftest import Tracking, spooled
from tests.synthetic import sweep


@pytest.fixture
def location(new_store: str) -> Location:
    return locate(new_store)


@pytest.fixture
def command(location: Location, tmp_path: Path) -> Callable[[str, int], Path]:
    """Files a command of fp32 (the baseline), fp16 and q8 in one context, started on a day of March; its folder."""

    def make(name: str, day: int) -> Path:
        folder = tmp_path / "multirun" / name
        made = sweep([4096], sweep_id=name, started=f"2026-03-{day:02}T12:00:00.000+00:00")
        for number, one in enumerate(made):
            one.id, one.experiment_id = f"{name}-{number}", name
        folders = spooled(folder, made)
        recorder = Recorder(Tracking(uri=location.uri), folder, Sweep.begin(name))
        for one, place in zip(made, folders, strict=True):
            recorder.add(one, place)
        assert "3 runs filed" in recorder.finish(SweepStatus.FINISHED)[0]
        return folder

    return make


def left(location: Location) -> list[str]:
    runs = [run for batch in reading.runs(location, Selection()) for run in batch]
    return sorted(run.tags.get("result_id", f"summary {run.tags['sweep_id']}") for run in runs)


def test_dry_unless_told_otherwise(
    command: Callable[[str, int], Path], location: Location, capsys: pytest.CaptureFixture[str]
) -> None:
    command("old", 1)
    before = left(location)
    assert prune.main([f"uri={location.uri}", "before=2026-03-15"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[1:5] for line in said[:2]] == [["2026-03-01", "12:00", "PASSED", "kv_quant"]] * 2
    assert said[2:] == [
        "would remove 2 of 3 runs (kv_quant 2)",
        "kept: 1 × baseline",
        "baselines=true removes those whose experiment has nothing else left",
        "nothing was removed; add dry_run=false to do it",
    ]
    assert left(location) == before


def test_old_runs_go_with_their_files_and_are_not_sent_again(
    command: Callable[[str, int], Path], location: Location, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = command("old", 1)
    command("new", 20)
    unfiled = spooled(tmp_path / "multirun" / "unfiled", sweep([8192]))
    runs = [
        run for batch in reading.runs(location, Selection(("kv_quant",), before=1_773_500_000_000)) for run in batch
    ]
    assert prune.main([f"uri={location.uri}", "before=2026-03-15", "baselines=true", "dry_run=false"]) == 0
    assert "removing 3 of 6 runs (kv_quant 3), and the summaries of 1 commands" in capsys.readouterr().out
    assert left(location) == ["new-0", "new-1", "new-2", "summary new"]
    assert len(runs) == 3 and not [run for run in runs if Path(run.artifacts).parent.exists()]
    with pytest.raises(Exception, match="not found"):
        MlflowClient(location.uri).get_run(runs[0].run_id)

    assert all((place / "result.json").is_file() for place in unfiled)
    assert [path for path in spool.results(folder) if spool.is_filed(path.parent)] == spool.results(folder)
    assert sync.main([str(folder), f"uri={location.uri}"]) == 0
    assert left(location) == ["new-0", "new-1", "new-2", "summary new"]


def test_the_newest_of_each_point_stays(
    command: Callable[[str, int], Path], location: Location, capsys: pytest.CaptureFixture[str]
) -> None:
    for day in (1, 2, 3):
        command(f"day-{day}", day)
    assert prune.main([f"uri={location.uri}", "last=1", "dry_run=false"]) == 0
    assert "kept: 3 × among the last 1, 2 × baseline" in capsys.readouterr().out
    kept = [name for name in left(location) if name.startswith("day")]
    assert kept == ["day-1-0", "day-2-0", "day-3-0", "day-3-1", "day-3-2"]


def test_what_failed_half_way_is_found_again(
    command: Callable[[str, int], Path], location: Location, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    command("old", 1)
    words = [f"uri={location.uri}", "before=2026-03-15", "dry_run=false"]
    removed: list[str] = []
    real = MlflowStore.remove

    def failing(self: MlflowStore, run: Filed) -> None:
        if removed:
            raise TrackingUnavailable("the store is gone")
        removed.append(run.run_id)
        real(self, run)

    with monkeypatch.context() as patch:
        patch.setattr(MlflowStore, "remove", failing)
        assert prune.main(words) == 1
    said = capsys.readouterr()
    assert "removed 1 of 2" in said.out and said.err == "error: the store is gone\n"
    assert prune.main(words) == 0
    assert left(location) == ["old-0", "summary old"]


def test_a_folder_that_is_not_the_runs_own_is_never_removed(
    command: Callable[[str, int], Path], location: Location, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command("old", 1)
    precious = tmp_path / "home" / "artifacts"
    precious.mkdir(parents=True)
    (precious / "thesis.txt").write_text("years of work")
    runs = [run for batch in reading.runs(location, Selection(params={"variant": ("q8",)})) for run in batch]
    with sqlite3.connect(location.database) as database:
        database.execute("update runs set artifact_uri = ? where run_uuid = ?", (str(precious), runs[0].run_id))
    assert prune.main([f"uri={location.uri}", "before=2026-03-15", "dry_run=false"]) == 0
    said = capsys.readouterr().out
    assert "kept: 1 × baseline, 1 × with files outside the store's folder of artifacts" in said
    assert (precious / "thesis.txt").is_file() and left(location) == ["old-0", "old-2", "summary old"]
    store = MlflowStore(location)
    store.open()
    with pytest.raises(ValueError, match="with files outside"):
        store.remove(store.run(runs[0].run_id))


def test_what_is_tagged_or_filed_on_meanwhile_stays_with_what_needs_it(
    command: Callable[[str, int], Path], location: Location, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    command("old", 1)
    client = MlflowClient(location.uri)
    real = pruning.plan

    def late(*given: Any) -> Any:
        found = real(*given)
        assert len(found.runs) == 3 and len(found.summaries) == 1
        for run in found.runs:
            if run.tags["result_id"] == "old-1":
                client.set_tag(run.run_id, "keep", "paper")
        return found

    monkeypatch.setattr(pruning, "plan", late)
    assert prune.main([f"uri={location.uri}", "before=2026-03-15", "baselines=true", "dry_run=false"]) == 0
    assert "removed 1 of 4\nkept meanwhile: 1 × with the tag keep, 2 × needed by those\n" in capsys.readouterr().out
    assert left(location) == ["old-0", "old-1", "summary old"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "say which runs may go: before=90d, say, or last=5"),
        (["dry_run=false"], "say which runs may go"),
        (["last=0"], "last=0: must be a whole number from 1"),
        (["last=2", "per=varant"], "per=varant: did you mean 'variant'?"),
        (["per=variant", "before=1d"], "per=variant: goes with last=N"),
        (["before=1d", "dry_run=no"], "dry_run=no: must be true or false"),
        (["befor=1d"], "befor: no such key; did you mean 'before'?"),
    ],
)
def test_what_makes_no_sense_is_refused(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert prune.main(words) == 2
    assert capsys.readouterr().err.startswith(f"error: {told}")


def test_a_store_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert prune.main([f"uri=sqlite:///{tmp_path}/none.db", "last=1"]) == 1
    assert "there is no store at" in capsys.readouterr().err
