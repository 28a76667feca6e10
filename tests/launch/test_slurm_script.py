"""What is submitted to Slurm, without one."""

from __future__ import annotations

from pathlib import Path

import pytest
import submitit

from runner.config.errors import ConfigError
from runner.config.points import Point
from runner.config.schema import Gpu
from runner.launch.slurm import Slurm, SlurmCluster
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
