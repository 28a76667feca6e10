"""One point as a job: what it leaves, and what a second attempt does with that."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from runner.config.points import Point
from runner.execute import on_node, planning, resume
from runner.execute.on_node import Answer
from runner.execute.planning import Experiment
from runner.execute.runs import Runs
from runner.exit_codes import FAILED, PASSED
from runner.record import spool
from runner.result import document
from runner.result.model import Result, Status
from runner.worker.client import WorkerDied, WorkerTimeout
from tests.kernels.plans import HOST, config

JOB = {"launcher": "slurm", "id": "7_0", "node": "node1", "log": "/logs/7_0.out"}
SMALL = {"B": 1, "H": 1, "T": 64, "D": 16}


def point_in(folder: Path) -> Point:
    made = config("kv_quant", SMALL)
    made.variants = ["fp32", "fp16"]
    made.measure.host.max_time_s = 0.1
    return Point(made, ("kernel=kv_quant",), folder / "0", 0, "sweep-1")


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Answer]:
    """The folder of a sweep whose only job has ended, and what the job said."""
    folder = tmp_path_factory.mktemp("sweep")
    point = point_in(folder)
    point.folder.mkdir()
    return folder, on_node.run_one(point, folder, JOB)


@pytest.fixture
def point(ended: tuple[Path, Answer], tmp_path: Path) -> Point:
    """The same, copied for a test that changes it."""
    shutil.copytree(ended[0], tmp_path, dirs_exist_ok=True)
    return point_in(tmp_path)


def left(point: Point) -> dict[str, Result]:
    return {path.parent.name: document.read(path) for path in spool.results(point.folder)}


def test_a_job_leaves_results_and_its_answer_and_nothing_else(ended: tuple[Path, Answer]) -> None:
    folder, answer = ended
    point = point_in(folder)
    assert answer.exit_code == PASSED and answer.job == JOB
    read = on_node.read(point.folder, "sweep-1")
    assert read is not None and read.ended and replace(read, ended="") == answer
    assert on_node.read(point.folder, "another sweep") is None
    made = left(point)
    assert set(answer.results) == {one.id for one in made.values()}
    assert on_node.due(point.folder, "sweep-1") == ["fp32", "fp16"] and on_node.due(point.folder, "another") is None
    assert {name: one.status for name, one in made.items()} == dict.fromkeys(("fp32", "fp16"), Status.PASSED)
    assert all(one.environment["job"] == JOB for one in made.values())
    assert not spool.sweeps(folder) and not list(folder.rglob("mlruns"))


def test_a_second_attempt_keeps_what_the_first_had_finished(point: Point, tmp_path: Path) -> None:
    before = left(point)
    (point.folder / "fp16" / document.FILE_NAME).unlink()
    answer = on_node.run_one(point, tmp_path, JOB)
    after = left(point)
    assert answer.exit_code == PASSED
    assert after["fp32"].id == before["fp32"].id and after["fp16"].id != before["fp16"].id
    assert {one.experiment_id for one in after.values()} == {before["fp32"].experiment_id}, "it is one experiment"
    assert set(answer.results) == {one.id for one in after.values()}
    assert after["fp16"].metrics["speedup"] > 0, "the baseline of the first attempt counts"


def test_a_second_attempt_that_resumes_is_the_same_experiment(
    point: Point, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = left(point)
    (point.folder / "fp16" / document.FILE_NAME).unlink()
    point.config.resume = True
    point.config.tracking.enabled = False
    on_node.run_one(point, tmp_path, JOB)
    assert on_node.due(point.folder, "sweep-1") == ["fp16"]
    assert {one.experiment_id for one in left(point).values()} == {before["fp32"].experiment_id}


def test_what_another_sweep_left_in_the_folder_is_not_kept(point: Point) -> None:
    planned = Experiment(point)
    planning.plan(planned, HOST)
    assert {one.variant for one in resume.of_earlier_attempt(planned, "sweep-1")} == {"fp32", "fp16"}
    assert resume.of_earlier_attempt(planned, "sweep-2") == []


def test_a_gpu_that_the_node_has_not_refuses_the_experiment(point: Point, tmp_path: Path) -> None:
    point.config.gpu = replace(point.config.gpu, name="h100_sxm", backend="cuda", nvml_names=["NVIDIA H100"])
    shutil.rmtree(point.folder)
    answer = on_node.run_one(point, tmp_path, JOB)
    assert answer.exit_code == FAILED
    (made,) = left(point).values()
    assert made.status is Status.INVALID_CONFIG and made.variant == ""


@pytest.mark.parametrize(
    "raised", [WorkerDied("the worker was killed by SIGSEGV", "", -11), WorkerTimeout("no answer within 120 s")]
)
def test_a_node_whose_device_cannot_be_opened_is_no_bad_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: Exception
) -> None:
    def broken(runs: Runs, experiment: Experiment) -> str:
        raise raised

    monkeypatch.setattr(Runs, "plan", broken)
    answer = on_node.run_one(point_in(tmp_path), tmp_path, JOB)
    assert answer.exit_code == FAILED
    (made,) = left(point_in(tmp_path)).values()
    assert made.status is Status.RUNTIME_ERROR and str(raised) in made.message
