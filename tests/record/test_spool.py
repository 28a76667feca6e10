"""Markers on disk: what has been filed, which sweep is still alive."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runner.record import spool
from runner.record.spool import Sweep, SweepStatus
from runner.result.document import DocumentError, read_id, write
from tests.record.conftest import SWEEP_ID, spooled
from tests.synthetic import result, sweep


def test_unsent_are_those_without_a_marker(weird_path: Path) -> None:
    folders = spooled(weird_path / "multirun" / "a", sweep([4096]))
    assert spool.unsent(weird_path) == folders
    spool.mark_filed(folders[1], "sqlite:///x.db", "run1", read_id(folders[1] / "result.json"))
    assert spool.unsent(weird_path) == [folders[0], folders[2]]
    assert spool.filed_run(folders[1]) == "run1"
    assert spool.filed_run(folders[0]) == ""
    assert json.loads((folders[1] / ".filed").read_text())["tracker"] == "sqlite:///x.db"
    assert spool.unsent(weird_path / "none") == []


def test_a_marker_is_about_the_document_that_was_filed(tmp_path: Path) -> None:
    (folder,) = spooled(tmp_path, [result(index=1)])
    spool.mark_filed(folder, "sqlite:///x.db", "run1", result(index=1).id)
    spool.mark_filed(tmp_path, "sqlite:///x.db", "run2", SWEEP_ID)
    assert (spool.filed_run(folder), spool.filed_run(tmp_path)) == ("run1", "run2")
    write(result(index=1, message="more is known"), folder)
    assert spool.is_filed(folder)
    write(result(index=2), folder)
    spool.write_sweep(Sweep.begin("another"), tmp_path)
    assert not spool.is_filed(folder) and spool.unsent(tmp_path) == [folder]
    assert not spool.is_filed(tmp_path) and spool.filed_run(tmp_path) == ""
    (folder / "result.json").write_text("{")
    assert not spool.is_filed(folder)


def test_a_marker_that_names_no_document_counts_for_what_is_not_newer(tmp_path: Path) -> None:
    (folder,) = spooled(tmp_path, [result()])
    for text in ('{"tracker": "sqlite:///x.db", "run_id": "run1"}', ""):
        (folder / ".filed").write_text(text)
        assert spool.is_filed(folder)
    later = (folder / ".filed").stat().st_mtime + 5
    os.utime(folder / "result.json", (later, later))
    assert not spool.is_filed(folder)


def test_copies_in_a_store_are_no_results(tmp_path: Path) -> None:
    spooled(tmp_path / "mlruns" / "artifacts", sweep([4096]))
    spooled(tmp_path / ".hidden", sweep([4096]))
    assert spool.unsent(tmp_path) == []
    assert spool.sweeps(tmp_path) == []


def test_a_sweep_marker_survives_the_round_trip(tmp_path: Path) -> None:
    made = Sweep.begin(SWEEP_ID, command="python -m runner", swept=["shape.context"], experiments=4)
    spool.write_sweep(made, tmp_path / "s")
    assert spool.read_sweep(tmp_path / "s") == made
    assert spool.sweeps(tmp_path) == [tmp_path / "s"]
    assert spool.sweep_folder(tmp_path / "s" / "3" / "q8") == tmp_path / "s"
    assert spool.sweep_folder(tmp_path) is None


@pytest.mark.parametrize(
    "text", ["{}", "[]", "x", '{"sweep_id": "a", "status": "HAPPY"}', "[" * 100_000], ids=lambda text: text[:9]
)
def test_a_broken_marker_names_the_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "sweep.json").write_text(text)
    with pytest.raises(DocumentError, match=r"sweep\.json: not a sweep marker"):
        spool.read_sweep(tmp_path)


@pytest.mark.parametrize("value", ["x", None, [], {}, 1.5])
@pytest.mark.parametrize("key", ["pid", "experiments", "tracking"])
def test_a_marker_with_a_value_of_another_type_names_the_key(tmp_path: Path, key: str, value: object) -> None:
    spool.write_sweep(Sweep.begin(SWEEP_ID), tmp_path)
    document = json.loads((tmp_path / "sweep.json").read_text())
    (tmp_path / "sweep.json").write_text(json.dumps(document | {key: value}))
    with pytest.raises(DocumentError, match=rf"sweep\.json: not a sweep marker \({key}: expected "):
        spool.read_sweep(tmp_path)


@pytest.mark.parametrize("pid", [-1, 1 << 80])
def test_a_number_that_no_process_has_is_of_none_that_lives(tmp_path: Path, pid: int) -> None:
    spool.write_sweep(dataclasses.replace(Sweep.begin(SWEEP_ID), pid=pid), tmp_path)
    assert spool.close_stale(tmp_path)


def test_a_living_sweep_is_left_alone(tmp_path: Path) -> None:
    spooled(tmp_path, sweep([4096]))
    assert not spool.close_stale(tmp_path)
    assert spool.read_sweep(tmp_path).status is SweepStatus.RUNNING


def test_a_sweep_of_another_host_is_left_alone(tmp_path: Path) -> None:
    spool.write_sweep(dataclasses.replace(Sweep.begin(SWEEP_ID), host="elsewhere", pid=1), tmp_path)
    assert not spool.close_stale(tmp_path)


def test_a_sweep_whose_process_was_killed_is_closed(tmp_path: Path, repository: Path) -> None:
    code = (
        "import sys, os, signal; from pathlib import Path; from runner.record import spool;"
        f"spool.write_sweep(spool.Sweep.begin('{SWEEP_ID}'), Path(sys.argv[1])); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=repository, check=False)
    assert spool.close_stale(tmp_path)
    closed = spool.read_sweep(tmp_path)
    assert closed.status is SweepStatus.KILLED
    assert closed.ended
    assert not spool.close_stale(tmp_path)


def test_a_process_id_used_again_does_not_keep_a_sweep_alive(tmp_path: Path) -> None:
    made = Sweep.begin(SWEEP_ID)
    spool.write_sweep(dataclasses.replace(made, pid_started=made.pid_started - 3600), tmp_path)
    assert spool.close_stale(tmp_path)
