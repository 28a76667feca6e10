"""A real Slurm of two nodes on this machine, and what a sweep on it leaves."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.cli import main
from runner.launch import slurm as launcher
from runner.record import spool
from runner.result import document
from runner.result.model import Status
from tests.launch import slurm_here, sweeps
from tests.launch.slurm_here import SlurmHere

pytestmark = pytest.mark.slurm
ON_SLURM = "hydra/launcher=slurm"
FAULTY = ("--config-dir", str(sweeps.FAMILIES), "kernel=faulty", *sweeps.QUICK)


@pytest.fixture(scope="module")
def _slurm() -> Iterator[SlurmHere]:
    with slurm_here.started() as made:
        yield made


@pytest.fixture
def slurm(_slurm: SlurmHere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlurmHere:
    """In a folder of the test's own."""
    for name, value in _slurm.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(launcher, "GRACE_S", 1.0)  # this machine sees at once what it has written
    return _slurm


def test_a_sweep_files_the_same_as_one_after_another(
    slurm: SlurmHere, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (*FAULTY, "kernel.params.fault=0,3,5", "-m")
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    for chosen in ("hydra/launcher=local", ON_SLURM):
        assert main([*lines, chosen, f"tracking.uri={uri}"]) == 1
    local, on_slurm = sweeps.filed_by_sweep(uri)
    assert on_slurm.runs == local.runs
    assert on_slurm.statuses == {"PASSED": 1, "INCORRECT": 1, "OUT_OF_MEMORY": 1}
    assert on_slurm.summaries == 1 and set(on_slurm.result_ids.values()) == {1}
    for tags in on_slurm.tags:
        assert tags["job_launcher"] == "slurm" and tags["job_node"] in slurm_here.NODES
        assert Path(tags["job_log"]).is_file()
    (sweep,) = [path.parent.parent for path in tmp_path.rglob("0/job.json")]
    assert not list(sweep.rglob("*.pkl")), "what was submitted holds what the config holds"
    assert "Slurm: 3 jobs submitted" in capsys.readouterr().out


def test_a_cancelled_task_is_lost_alone_and_resume_makes_up_for_it(
    slurm: SlurmHere, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [*FAULTY, "kernel.params.fault=0,3", ON_SLURM, "tracking=none", "-m"]

    def cancel() -> None:
        while not (names := slurm.ask("squeue", "-h", "-r", "-o", "%i").split()):
            time.sleep(0.1)
        slurm.ask("scancel", max(names))

    canceller = threading.Thread(target=cancel)
    canceller.start()
    assert main([*lines, "hydra.launcher.array_parallelism=1"]) == 1
    canceller.join()
    found = {document.read(path).status: document.read(path).message for path in spool.results(tmp_path)}
    assert set(found) == {Status.PASSED, Status.RUNTIME_ERROR}
    assert "_1 was lost: cancelled before it began" in found[Status.RUNTIME_ERROR]
    capsys.readouterr()
    assert main([*lines, "resume=true"]) == 1
    assert "1 results are there already, 1 are left to run" in capsys.readouterr().out
    assert len([path for path in spool.results(tmp_path) if document.read(path).status is Status.INCORRECT]) == 1


def test_a_named_gpu_leads_to_nodes_that_have_it(slurm: SlurmHere, tmp_path: Path) -> None:
    """There is none here, so that every experiment is refused, by the node that it was sent to."""
    gpus = "gpu=a100_80_sxm,h100_sxm"
    assert main(["--config-dir", str(sweeps.FAMILIES), "kernel=faulty", gpus, ON_SLURM, "tracking=none", "-m"]) == 2
    nodes = {path.parent.name: json.loads(path.read_text())["job"]["node"] for path in tmp_path.rglob("job.json")}
    assert nodes == {"0": "node1", "1": "node2"}
    assert not spool.results(tmp_path) and not spool.sweeps(tmp_path)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("hydra.launcher.partition=tset",), "hydra.launcher.partition=tset: no such partition; did you mean 'test'?"),
        (("hydra.launcher.timeout_min=61",), "hydra.launcher.timeout_min=61: partition test allows 60"),
        (("hydra.launcher.timeout_min=0",), "hydra.launcher.timeout_min=0: must be at least 1"),
        (("gpu=auto", "devices=[0,1,2]"), "devices=[0, 1, 2]: 3 GPUs asked, and no node of partition test has more"),
        (("gpu=auto", "devices=[1]"), "devices=[1]: a job counts the devices that it is given from 0; write devices"),
        (("gpu=b200",), "gpu=b200: no node of partition test has the feature b200 (there are a100_80_sxm, h100_sxm)"),
        (
            ("hydra.launcher.cpus_per_task=3",),
            "hydra.launcher.cpus_per_task=3: no node of partition test has more than 2",
        ),
        (("hydra.launcher.mem_gb=2.5",), "hydra.launcher.mem_gb=2.5: no node of partition test has more than 1.953"),
        (
            ("hydra.launcher.sbatch={reservation: no}",),
            "hydra/launcher=slurm: sbatch refuses the jobs (reservation=no)",
        ),
        (
            ("hydra.launcher.sbatch={foo: 1}",),
            "hydra/launcher=slurm: sbatch refuses the jobs (foo=1): unrecognized option",
        ),
        (("hydra.launcher.gres=gpu:v100", "gpu=auto"), "hydra/launcher=slurm: sbatch refuses the jobs (gres=gpu:v100"),
    ],
)
def test_what_cannot_be_submitted_is_one_line(
    slurm: SlurmHere, tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: tuple[str, ...], message: str
) -> None:
    assert main([*FAULTY, "seed=1,2", ON_SLURM, *lines, "-m"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {message}") and error.count("\n") == 1
    assert not spool.sweeps(tmp_path) and not slurm.ask("squeue", "-h")


def test_a_results_folder_that_cannot_be_written_is_refused(
    slurm: SlurmHere, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main([*FAULTY, "seed=1,2", ON_SLURM, "hydra.sweep.dir=file/below", "-m"]) == 2
    assert "results cannot be written there" in capsys.readouterr().err
