"""What is submitted to Slurm, without one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import submitit

from runner.config.errors import ConfigError
from runner.config.points import Point
from runner.config.schema import Gpu
from runner.launch import slurm, slurm_client
from runner.launch.job import for_node
from runner.launch.slurm import Slurm, SlurmCluster
from runner.launch.slurm_client import JobState
from tests.kernels.plans import config


def point(gpu: str = "h100_sxm", backend: str = "cuda", devices: tuple[int, ...] = (0,)) -> Point:
    made = config("kv_quant")
    made.gpu = Gpu(name=gpu, backend=backend)
    made.devices = list(devices)
    return Point(made, (), Path("/sweep/0"))


def flags(settings: Slurm, one: Point, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Options of the script that sbatch would get."""
    monkeypatch.setattr(submitit.SlurmExecutor, "affinity", classmethod(lambda cls: 2))
    cluster = SlurmCluster(settings)
    executor = submitit.SlurmExecutor(folder)
    executor.update_parameters(**cluster._parameters(cluster._kind(one)))
    lines = executor._make_submission_file_text("command", "id").splitlines()
    given = [line.removeprefix("#SBATCH --").partition("=") for line in lines if line.startswith("#SBATCH")]
    return {name: value for name, _, value in given}


def test_a_named_gpu_is_asked_for_and_is_a_constraint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = flags(Slurm(), point(devices=(0, 1)), tmp_path, monkeypatch)
    assert (found["gres"], found["constraint"], found["time"]) == ("gpu:2", "h100_sxm", "60")
    assert "requeue" in found and found["open-mode"] == "append" and found["signal"] == "USR2@90"
    assert found["wckey"] == "''", "submitit names an accounting key of its own, which a site may refuse"
    assert not {"partition", "account", "qos", "exclusive", "mem"} & set(found)


def test_a_site_names_its_nodes_and_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Slurm(features={"h100_sxm": "h100&sxm"}, gres="gpu:h100")
    found = flags(settings, point(), tmp_path, monkeypatch)
    assert (found["gres"], found["constraint"]) == ("gpu:h100:1", "'h100&sxm'")


def test_any_gpu_and_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = flags(Slurm(), point("auto", "auto"), tmp_path, monkeypatch)
    assert found["gres"] == "gpu:1" and "constraint" not in found
    found = flags(Slurm(), point("host", "host"), tmp_path, monkeypatch)
    assert not {"gres", "constraint"} & set(found)
    found = flags(Slurm(gres=None), point(), tmp_path, monkeypatch)
    assert "gres" not in found and found["constraint"] == "h100_sxm"


def test_every_option_reaches_sbatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Slurm(
        partition="p",
        account="a",
        qos="q",
        timeout_min=5,
        cpus_per_task=2,
        mem_gb=1.5,
        exclusive=True,
        sbatch={"reservation": "bench", "wckey": "mine"},
    )
    found = flags(settings, point("host", "host"), tmp_path, monkeypatch)
    expected = {"partition": "p", "account": "a", "qos": "q", "time": "5", "cpus-per-task": "2", "mem": "1536MB"}
    assert expected.items() <= found.items()
    assert found["exclusive"] == "" and found["reservation"] == "bench" and found["wckey"] == "mine"


def test_devices_of_a_job_are_counted_from_0() -> None:
    with pytest.raises(ConfigError, match=r"devices=\[1\]: a job counts the devices .* write devices=\[0\]"):
        SlurmCluster(Slurm())._kind(point(devices=(1,)))


URI = "postgresql://alice:hunter2@db:5432/mlflow"


def test_the_stores_password_goes_only_to_jobs_that_look_results_up() -> None:
    made = point("host", "host")
    made = replace(made, overrides=("kernel=kv_quant", f"++tracking.uri={URI}"))
    made.config.tracking = replace(made.config.tracking, uri=URI)
    sent = for_node(made)
    assert "hunter2" not in repr(sent) and "hunter2" in repr(made)
    assert sent.shown == made.shown and sent.repeat == made.repeat, "its results tell the same"
    made.config.resume = True
    assert for_node(made).config.tracking.uri == URI


def test_what_is_submitted_is_read_by_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "slurm" / "an-earlier-sweep" / "1_submitted.pkl"
    other.parent.mkdir(parents=True)
    other.touch()
    seen: list[tuple[int, int]] = []

    def submit(cluster: SlurmCluster, *of: object) -> None:
        assert cluster._folder is not None
        seen.append((cluster._folder.stat().st_mode & 0o777, len(list(cluster._folder.iterdir()))))
        (cluster._folder / "2_submitted.pkl").touch()

    for name, answer in (("largest_array", 10), ("partitions", {})):
        monkeypatch.setattr(slurm_client, name, lambda answer=answer: answer)
    monkeypatch.setattr(SlurmCluster, "_check", lambda *of: None)
    monkeypatch.setattr(SlurmCluster, "_submit", submit)
    made = replace(point("host", "host"), folder=tmp_path / "0", sweep_id="sweep-2")
    own = tmp_path / "slurm" / "sweep-2"
    own.mkdir(mode=0o755)
    cluster = SlurmCluster(Slurm())
    cluster.submit([made], tmp_path)
    cluster.close()
    assert seen == [(0o700, 0)]
    assert other.exists() and not list(own.iterdir())


def test_a_job_that_is_taken_for_lost_is_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def ask(*command: str) -> str:
        asked.append(command)
        return ""

    monkeypatch.setattr(slurm, "GRACE_S", 0.0)
    monkeypatch.setattr(slurm, "LEAST_S", 0.0)
    monkeypatch.setattr(slurm_client, "states", lambda arrays: {"7_0": JobState("NODE_FAIL", node="n1")})
    monkeypatch.setattr(slurm_client, "ask", ask)
    cluster = SlurmCluster(Slurm())
    cluster._tasks["7_0"] = slurm._Task(replace(point("host", "host"), folder=tmp_path), tmp_path / "7_0_log.out")
    (ended,) = cluster.ended()
    assert ended.answer is None and ended.lost == "Slurm job 7_0 on n1 was lost: NODE_FAIL"
    assert asked == [("scancel", "7_0")]
