"""``python -m runner.sync``: everything unsent, exactly once, to where it was meant to go."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from runner import sync
from runner.execute import on_node
from runner.execute.on_node import Answer
from runner.record import spool
from runner.record.spool import SweepStatus
from runner.result import clock
from runner.result.document import write
from tests.conftest import copy_store
from tests.record.conftest import spooled
from tests.synthetic import result, sweep


@pytest.fixture
def uri(ready_database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A store's URI; the working folder is a project with nothing in it."""
    store = tmp_path / "store"
    store.mkdir()
    copy_store(ready_database, store)
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    yield f"sqlite:///{store / 'mlflow.db'}"


def end(folder: Path, status: SweepStatus = SweepStatus.FINISHED, **values: object) -> None:
    """Marks a spooled sweep as ended."""
    made = dataclasses.replace(spool.read_sweep(folder), status=status, ended=clock.now(), **values)  # type: ignore[arg-type]
    spool.write_sweep(made, folder)


def runs(uri: str, experiment: str = "kv_quant") -> list[Run]:
    client = MlflowClient(tracking_uri=uri)
    found = client.get_experiment_by_name(experiment)
    return list(client.search_runs([found.experiment_id])) if found else []


def count(uri: str, experiment: str = "kv_quant") -> int:
    return len(runs(uri, experiment))


def test_everything_is_sent_once_with_its_summary(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    day = Path("multirun/2026-03-01/12-00-00")
    spooled(day, sweep([4096, 8192]))
    end(day)
    assert sync.main([f"uri={uri}"]) == 0
    assert f"{day.absolute()}: 6 results filed" in capsys.readouterr().out
    assert (count(uri), count(uri, "sweeps")) == (6, 1)
    assert (day / "report" / "table.md").is_file()
    assert sync.main([f"uri={uri}"]) == 0
    assert "nothing to send" in capsys.readouterr().out
    assert (count(uri), count(uri, "sweeps")) == (6, 1)


def test_a_sweep_goes_where_it_was_meant_to_go(uri: str) -> None:
    spooled(Path("outputs/a"), sweep([4096]))
    end(Path("outputs/a"), tracking_uri=uri)
    assert sync.main([]) == 0
    assert count(uri) == 3


def test_markers_that_were_lost_make_no_second_run(uri: str) -> None:
    folders = spooled(Path("outputs/a"), sweep([4096]))
    end(Path("outputs/a"))
    assert sync.main([f"uri={uri}"]) == 0
    for folder in [*folders, Path("outputs/a")]:
        (folder / ".filed").unlink()
    assert sync.main([f"uri={uri}"]) == 0
    assert (count(uri), count(uri, "sweeps")) == (3, 1)


def test_a_command_run_again_in_its_folder_is_filed_again(uri: str) -> None:
    day = Path("outputs/a")
    for number, contexts in enumerate(([4096, 8192], [4096])):
        made = sweep(contexts, sweep_id=f"sweep {number}")
        for one in made:
            one.id = f"{number}-{one.id}"
        spooled(day, made)
        end(day, sweep_id=f"sweep {number}")
        assert sync.main([f"uri={uri}"]) == 0
    assert (count(uri), count(uri, "sweeps")) == (9, 2)
    counted = {run.data.tags["sweep_id"]: run.data.metrics["results"] for run in runs(uri, "sweeps")}
    assert counted == {"sweep 0": 6, "sweep 1": 3}
    assert (day / "report" / "table.md").read_text().count("| q8 |") == 1


def test_a_running_sweep_is_left_alone_unless_named(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    spooled(Path("outputs/a"), sweep([4096]))
    assert sync.main([f"uri={uri}"]) == 0
    assert "still running, files its own results" in capsys.readouterr().out
    assert count(uri) == 0
    assert sync.main(["outputs/a", f"uri={uri}"]) == 0
    assert (count(uri), count(uri, "sweeps")) == (3, 0)


def test_a_sweep_whose_process_is_gone_is_closed_as_killed(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path("multirun/a")
    spooled(folder, sweep([4096]))
    dead = dataclasses.replace(spool.read_sweep(folder), pid_started=1.0)
    spool.write_sweep(dead, folder)
    assert sync.main([f"uri={uri}"]) == 0
    assert "its process is gone, closed as KILLED" in capsys.readouterr().out
    (run,) = runs(uri, "sweeps")
    assert run.info.status == "KILLED"
    assert spool.read_sweep(folder).status is SweepStatus.KILLED


def test_jobs_outlive_the_process_that_submitted_them(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path("multirun/a")
    made = spooled(folder, sweep([4096]), command="python -m runner hydra/launcher=slurm -m", experiments=3)
    spool.write_sweep(dataclasses.replace(spool.read_sweep(folder), pid_started=1.0), folder)
    answer = Answer(spool.read_sweep(folder).sweep_id, 0)
    on_node.write(answer, folder / "0")
    on_node.write(dataclasses.replace(answer, sweep_id="an earlier one"), folder / "1")

    assert sync.main([f"uri={uri}"]) == 1
    said = capsys.readouterr()
    assert "2 of its 3 jobs have not answered: 2 results and the summary are left. Sync again" in said.err
    assert f"{folder.absolute()}: 1 result filed" in said.out
    assert (count(uri), count(uri, "sweeps")) == (1, 0) and spool.unsent(folder) == made[1:]
    assert spool.read_sweep(folder).status is SweepStatus.RUNNING and not (folder / "report").exists()
    assert sync.main([f"uri={uri}"]) == 1, "nothing new, and still not all"

    on_node.write(answer, folder / "1")
    assert sync.main([f"uri={uri}"]) == 1
    assert (count(uri), count(uri, "sweeps")) == (2, 0)
    on_node.write(answer, folder / "2")
    assert sync.main([f"uri={uri}"]) == 0
    assert (count(uri), count(uri, "sweeps")) == (3, 1)
    assert spool.read_sweep(folder).status is SweepStatus.KILLED


def test_jobs_that_will_never_answer_are_given_up_by_naming_the_folder(uri: str) -> None:
    folder = Path("multirun/a")
    spooled(folder, sweep([4096]), experiments=3)
    (folder / "slurm").mkdir()
    spool.write_sweep(dataclasses.replace(spool.read_sweep(folder), pid_started=1.0), folder)
    assert sync.main([f"uri={uri}"]) == 1
    assert count(uri) == 0
    assert sync.main([str(folder), f"uri={uri}"]) == 0
    assert (count(uri), count(uri, "sweeps")) == (3, 1)


def test_tracking_off_is_respected_unless_the_folder_is_named(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path("outputs/a")
    spooled(folder, sweep([4096]), tracking=False)
    end(folder)
    assert sync.main([f"uri={uri}"]) == 0
    assert "3 results of sweeps with tracking off were left alone" in capsys.readouterr().out
    assert count(uri) == 0
    assert sync.main([str(folder), f"uri={uri}"]) == 0
    assert count(uri) == 3


def test_a_folder_inside_a_sweep_means_that_sweep(uri: str) -> None:
    folders = spooled(Path("elsewhere/a"), sweep([4096]))
    end(Path("elsewhere/a"))
    assert sync.main([str(folders[0]), f"uri={uri}"]) == 0
    assert count(uri) == 3


def test_a_password_that_is_not_kept_must_be_given(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    spooled(Path("outputs/a"), sweep([4096]))
    end(Path("outputs/a"), tracking_uri="http://ada:***@tracker:5000")
    assert sync.main([]) == 1
    assert "needs its password, which is not kept: give uri=" in capsys.readouterr().err


def test_what_cannot_be_sent_gives_exit_code_one(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    folders = spooled(Path("outputs/a"), sweep([4096]))
    end(Path("outputs/a"))
    (folders[0] / "result.json").write_text("{")
    assert sync.main([f"uri={uri}"]) == 1
    assert "1 result left: cannot read" in capsys.readouterr().err
    assert sync.main(["uri=http://ada:s3cr3t@127.0.0.1:9"]) == 1
    assert "s3cr3t" not in "".join(capsys.readouterr())
    assert count(uri) == 2


def test_two_at_once_file_each_result_once(uri: str, repository: Path) -> None:
    spooled(Path("outputs/a"), sweep([4096, 8192, 16384]))
    end(Path("outputs/a"))
    command = [sys.executable, "-m", "runner.sync", f"uri={uri}"]
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    both = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for process in both:
        process.communicate(timeout=120)
    assert [process.returncode for process in both] == [0, 0]
    assert (count(uri), count(uri, "sweeps")) == (9, 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["url=x"], "url: no such key; did you mean 'uri'?"),
        (["nowhere/at/all"], "nowhere/at/all is not a folder"),
        (["uri="], "uri=: a value is missing"),
        (["uri=bad://x"], "tracking.uri=bad://x cannot be used; allowed: sqlite:///<file>"),
    ],
)
def test_bad_arguments(uri: str, capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert sync.main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {message}") and "usage:" in error


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_poor_standard_output_stops_nothing(uri: str, repository: Path, tmp_path: Path, unbuffered: str) -> None:
    spooled(Path("outputs/a"), sweep([4096]))
    end(Path("outputs/a"))
    command = [sys.executable, "-m", "runner.sync", f"uri={uri}"]
    environment = {**os.environ, "PYTHONPATH": str(repository), "PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("w") as full:
        answer = subprocess.run(command, env=environment, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    told = "warning: standard output cannot be written: No space left on device; going on without it\n"
    assert (answer.returncode, answer.stderr) == (0, told)
    assert (count(uri), count(uri, "sweeps")) == (3, 1)


def test_an_interrupt_has_the_exit_code_of_one(
    uri: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> list[Path]:
        raise KeyboardInterrupt

    monkeypatch.setattr(sync, "_sweeps", interrupted)
    assert sync.main([f"uri={uri}"]) == 130
    assert capsys.readouterr().err == "interrupted; run the same command again for the rest\n"


def test_a_result_without_a_sweep_marker_is_mentioned(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    write(result(), Path("outputs/alone/q8"))
    assert sync.main([f"uri={uri}"]) == 1
    assert "outputs/alone/q8: belongs to no sweep (no sweep.json above it)" in capsys.readouterr().err
