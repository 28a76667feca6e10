"""The submitting side, with a cluster that does what the test says."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from runner.config.errors import ConfigError
from runner.config.points import Point
from runner.config.schema import Gpu
from runner.execute import on_node
from runner.execute.on_node import Answer
from runner.launch import elsewhere
from runner.launch.cluster import Ended
from runner.record import spool
from runner.record.spool import SweepStatus
from runner.result import document
from runner.result.model import Result, Status
from tests import synthetic
from tests.kernels.plans import config

SWEEP_ID = "20260301-120000-000000-1"


def points(folder: Path, count: int, variants: tuple[str, ...] = ("fp32", "fp16")) -> list[Point]:
    made = []
    for number in range(count):
        one = config("kv_quant")
        one.variants = list(variants)
        made.append(Point(one, (f"seed={number}",), folder / str(number), number, SWEEP_ID))
    return made


def leave(point: Point, *variants: str, status: Status = Status.PASSED, sweep_id: str = SWEEP_ID) -> None:
    """What a job leaves on the shared folder."""
    for variant in variants:
        made = synthetic.result(
            variant,
            1024 * (point.number + 1),
            index=point.number,
            status=status,
            sweep_id=sweep_id,
            experiment_id=str(point.number),
        )
        made.id = f"{point.number}-{variant}"
        document.write(made, point.folder / variant if variant else point.folder)


@dataclass
class Scripted:
    """``script``: what ``ended`` returns, call by call; a function is called for it."""

    script: list[Callable[[], list[Ended]]]
    refuses: str = ""
    cancelled: bool = False
    closed: bool = False
    title: str = "Scripted"
    submitted: list[Point] = field(default_factory=list)

    def submit(self, points: Sequence[Point], folder: Path) -> str:
        assert (folder / spool.SWEEP_FILE).is_file(), "whoever dies now leaves a sweep that sync finds"
        if self.refuses:
            raise ConfigError(self.refuses)
        self.submitted = list(points)
        return f"{len(points)} jobs"

    def ended(self) -> list[Ended]:
        return self.script.pop(0)()

    def state(self) -> str:
        return "0 run"

    def cancel(self) -> None:
        self.cancelled = True

    def close(self) -> None:
        self.closed = True


def passed(point: Point, **values: int) -> Ended:
    return Ended(point, Answer(SWEEP_ID, 0, **values))  # type: ignore[arg-type]


def statuses(folder: Path) -> dict[str, Status]:
    return {str(path.parent.relative_to(folder)): document.read(path).status for path in spool.results(folder)}


def table(folder: Path) -> str:
    return (folder / "report" / "table.csv").read_text()


def test_results_stand_in_the_order_of_the_sweep_whatever_ends_first(tmp_path: Path) -> None:
    first, second = points(tmp_path, 2)

    def both() -> list[Ended]:
        leave(second, "fp32", "fp16")
        leave(first, "fp32", "fp16")
        return [passed(second), passed(first)]

    cluster = Scripted([both])
    assert elsewhere.run([first, second], (), SWEEP_ID, tmp_path, cluster) == 0
    assert cluster.closed and not cluster.cancelled
    assert spool.read_sweep(tmp_path).status is SweepStatus.FINISHED
    rows = table(tmp_path).splitlines()[1:]
    assert len(rows) == 4
    assert ["1024" in row for row in rows] == [True, True, False, False]


def test_a_lost_job_costs_what_it_had_not_finished(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = points(tmp_path, 2)

    def one_is_lost() -> list[Ended]:
        leave(first, "fp32", "fp16")
        leave(second, "fp32")
        leave(second, "fp16", sweep_id="an earlier one")
        (second.folder / "fp16" / document.FILE_NAME).unlink()
        return [passed(first), Ended(second, None, "Slurm job 1_1 was lost: CANCELLED", {"launcher": "slurm"})]

    assert elsewhere.run([first, second], (), SWEEP_ID, tmp_path, Scripted([one_is_lost])) == 1
    assert statuses(tmp_path) == {
        "0/fp32": Status.PASSED,
        "0/fp16": Status.PASSED,
        "1/fp32": Status.PASSED,
        "1/fp16": Status.RUNTIME_ERROR,
    }
    made = document.read(tmp_path / "1" / "fp16" / document.FILE_NAME)
    assert made.message == "Slurm job 1_1 was lost: CANCELLED" and made.sweep_id == SWEEP_ID
    assert made.params["T"] and made.environment["job"] == {"launcher": "slurm"}
    assert "fingerprint" not in made.environment, "nobody knows which device it would have had"
    assert made.experiment_id == "1"
    assert "was lost" in capsys.readouterr().out


def test_a_lost_job_is_told_where_all_its_results_are_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = points(tmp_path, 2)

    def both_are_whole() -> list[Ended]:
        leave(first, "fp32", "fp16")
        leave(second, "fp32", "fp16")
        return [Ended(first, None, "Slurm job 1_0 was lost: NODE_FAIL"), Ended(second, Answer(SWEEP_ID, 1, "a defect"))]

    assert elsewhere.run([first, second], (), SWEEP_ID, tmp_path, Scripted([both_are_whole])) == 1
    said = capsys.readouterr().out
    assert "Slurm job 1_0 was lost: NODE_FAIL" in said and "a defect" in said
    assert set(statuses(tmp_path).values()) == {Status.PASSED}


def test_a_lost_job_leaves_the_results_of_an_earlier_sweep(tmp_path: Path) -> None:
    (point,) = points(tmp_path, 1)
    leave(point, "fp32", sweep_id="an earlier one")
    lost = Ended(point, None, "Slurm job 1_0 was lost: TIMEOUT")
    assert elsewhere.run([point], (), SWEEP_ID, tmp_path, Scripted([lambda: [lost]])) == 1
    assert statuses(tmp_path) == {"0/fp32": Status.PASSED, "0/fp16": Status.RUNTIME_ERROR}
    assert document.read(point.folder / "fp32" / document.FILE_NAME).sweep_id == "an earlier one"


def due(point: Point, *variants: str) -> None:
    """What a job writes before it runs."""
    point.folder.mkdir(exist_ok=True)
    text = json.dumps({"sweep_id": SWEEP_ID, "variants": variants})
    (point.folder / on_node.DUE_FILE).write_text(text)


def test_a_lost_job_that_resumed_costs_what_was_due(tmp_path: Path) -> None:
    first, second, third = points(tmp_path, 3)
    for point in (first, second, third):
        point.config.resume = True
    due(first, "fp16")
    due(second)

    def all_are_lost() -> list[Ended]:
        return [Ended(point, None, f"job {point.number} was lost") for point in (first, second, third)]

    assert elsewhere.run([first, second, third], (), SWEEP_ID, tmp_path, Scripted([all_are_lost])) == 1
    # What the third was to run nobody knows, and it stands as a whole.
    assert statuses(tmp_path) == {"0/fp16": Status.RUNTIME_ERROR, "2": Status.RUNTIME_ERROR}


def test_a_lost_job_is_filed_with_the_gpu_that_was_asked_for(tmp_path: Path) -> None:
    (point,) = points(tmp_path, 1, ("fp32",))
    point.config.gpu = Gpu(name="auto", backend="auto")
    elsewhere.run([point], (), SWEEP_ID, tmp_path, Scripted([lambda: [Ended(point, None, "lost")]]))
    made = document.read(point.folder / "fp32" / document.FILE_NAME)
    assert (made.gpu, made.backend, made.params["gpu"], made.params["backend"]) == ("auto",) * 4
    assert "target" not in made.environment


def test_an_answer_whose_results_stay_invisible_is_a_lost_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elsewhere, "VISIBLE_S", 0.0)
    monkeypatch.setattr(elsewhere, "LOOK_S", 0.0)
    (point,) = points(tmp_path, 1)

    def one_is_missing() -> list[Ended]:
        leave(point, "fp32")
        return [Ended(point, Answer(SWEEP_ID, 0, results=["0-fp32", "0-fp16"]))]

    assert elsewhere.run([point], (), SWEEP_ID, tmp_path, Scripted([one_is_missing])) == 1
    assert "job 0 ended, and 1 of its 2 results are not in" in capsys.readouterr().out
    assert statuses(tmp_path) == {"0/fp32": Status.PASSED, "0/fp16": Status.RUNTIME_ERROR}


def test_results_that_become_visible_late_are_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (point,) = points(tmp_path, 1)
    leave(point, "fp32")
    monkeypatch.setattr("runner.launch.elsewhere.time.sleep", lambda seconds: leave(point, "fp16"))
    ended = Ended(point, Answer(SWEEP_ID, 0, results=["0-fp32", "0-fp16"]))
    assert elsewhere.run([point], (), SWEEP_ID, tmp_path, Scripted([lambda: [ended]])) == 0
    assert set(statuses(tmp_path)) == {"0/fp32", "0/fp16"}


def test_where_every_experiment_is_refused_nothing_is_left_to_be_filed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = points(tmp_path, 2)

    def refused() -> list[Ended]:
        for point in made:
            leave_refused(point)
        return [Ended(point, Answer(SWEEP_ID, 1)) for point in made]

    assert elsewhere.run(made, (), SWEEP_ID, tmp_path, Scripted([refused])) == 2
    assert capsys.readouterr().err == "error: gpu=b200: not here\n"
    assert not spool.results(tmp_path) and not spool.sweeps(tmp_path)


def test_a_refused_experiment_among_others_is_a_result(tmp_path: Path) -> None:
    first, second = points(tmp_path, 2)

    def mixed() -> list[Ended]:
        leave_refused(first)
        leave(second, "fp32", "fp16")
        return [Ended(first, Answer(SWEEP_ID, 1)), passed(second)]

    assert elsewhere.run([first, second], (), SWEEP_ID, tmp_path, Scripted([mixed])) == 1
    assert set(statuses(tmp_path)) == {"0", "1/fp32", "1/fp16"}
    assert table(tmp_path).count("INVALID_CONFIG") == 1


def leave_refused(point: Point) -> None:
    made = Result(
        id=f"{point.number}",
        kernel="kv_quant",
        variant="",
        status=Status.INVALID_CONFIG,
        message="gpu=b200: not here",
        sweep_id=SWEEP_ID,
        experiment_id=str(point.number),
    )
    document.write(made, point.folder)


def test_a_cluster_that_refuses_leaves_no_sweep(tmp_path: Path) -> None:
    made = points(tmp_path, 1)
    for point in made:
        point.folder.mkdir()
    cluster = Scripted([], refuses="hydra.launcher.partition=nope: no such partition")
    with pytest.raises(ConfigError, match="no such partition"):
        elsewhere.run(made, (), SWEEP_ID, tmp_path, cluster)
    assert cluster.closed and not spool.sweeps(tmp_path)


def test_what_is_refused_after_jobs_have_run_leaves_the_sweep_to_be_filed(tmp_path: Path) -> None:
    (point,) = points(tmp_path, 1)

    def broken() -> list[Ended]:
        leave(point, "fp32")
        raise ConfigError("the store has gone")

    cluster = Scripted([broken])
    with pytest.raises(ConfigError, match="the store has gone"):
        elsewhere.run([point], (), SWEEP_ID, tmp_path, cluster)
    assert cluster.cancelled and spool.read_sweep(tmp_path).status is SweepStatus.FAILED


def test_ctrl_c_cancels_the_jobs_and_keeps_what_is_finished(tmp_path: Path) -> None:
    first, second = points(tmp_path, 2)

    def interrupted() -> list[Ended]:
        leave(first, "fp32")
        raise KeyboardInterrupt

    cluster = Scripted([interrupted])
    assert elsewhere.run([first, second], (), SWEEP_ID, tmp_path, cluster) == 130
    assert cluster.cancelled and cluster.closed
    assert spool.read_sweep(tmp_path).status is SweepStatus.KILLED
    assert len(table(tmp_path).splitlines()) == 2


def test_resume_counts_what_all_jobs_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = points(tmp_path, 2)
    for point in made:
        point.config.resume = True
    answers = [passed(made[0], there=2, to_run=0), passed(made[1], there=2, to_run=0)]
    assert elsewhere.run(made, (), SWEEP_ID, tmp_path, Scripted([lambda: answers])) == 0
    assert "4 results are there already, 0 are left to run" in capsys.readouterr().out
    assert not spool.sweeps(tmp_path)


@pytest.mark.parametrize(("lost", "code"), [(False, 5), (True, 1)])
def test_a_gate_is_held_once_for_the_sweep_and_what_was_lost_counts_first(
    lost: bool, code: int, tmp_path: Path, new_store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    made = points(tmp_path, 2)
    for point in made:
        point.config.study.gate.max_slowdown = "3%"
        point.config.tracking.enabled, point.config.tracking.uri = True, new_store
        leave(point, "fp32", "fp16")
    last = Ended(made[1], None, "job 1 was lost") if lost else passed(made[1])
    assert elsewhere.run(made, (), SWEEP_ID, tmp_path, Scripted([lambda: [passed(made[0]), last]])) == code
    said = capsys.readouterr().out
    assert said.count("gate: not held: nothing compares with a standard for ") == 1
    assert f"python -m runner.baseline set sweep={SWEEP_ID} uri={new_store}" in said
