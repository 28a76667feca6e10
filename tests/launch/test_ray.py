"""A real Ray on this machine, and what a sweep on it leaves."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.cli import main
from runner.record import spool
from tests.launch import ray_here, sweeps
from tests.launch.ray_here import RayHere

pytestmark = pytest.mark.ray
ON_RAY = "hydra/launcher=ray"


@pytest.fixture(scope="module")
def ray() -> Iterator[RayHere]:
    with ray_here.started() as made:
        yield made


def test_a_sweep_files_the_same_as_one_after_another(ray: RayHere, tmp_path: Path) -> None:
    lines = ("kernel=faulty", "kernel.params.fault=0,3,5")
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    for name in ("local", "ray"):
        done = ray.run(sweeps.command(*lines, f"hydra/launcher={name}", f"tracking.uri={uri}"), tmp_path)
        assert done.returncode == 1, done.stdout + done.stderr
    local, on_ray = sweeps.filed_by_sweep(uri)
    assert on_ray.runs == local.runs
    assert on_ray.statuses == {"PASSED": 1, "INCORRECT": 1, "OUT_OF_MEMORY": 1}
    assert on_ray.summaries == 1 and set(on_ray.result_ids.values()) == {1}
    for tags in on_ray.tags:
        assert tags["job_launcher"] == "ray" and "faulty" in Path(tags["job_log"]).read_text()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("gpu=b200",), "gpu=b200: no node of this Ray has the resource b200 (there are h100_sxm)"),
        (("gpu=auto", "devices=[0,1,2]"), "devices=[0, 1, 2]: 3 GPUs asked, and no node of this Ray has more than 2"),
    ],
)
def test_what_no_node_has_is_one_line(ray: RayHere, tmp_path: Path, lines: tuple[str, ...], message: str) -> None:
    done = ray.run(sweeps.command("kernel=faulty", "seed=1,2", ON_RAY, *lines), tmp_path)
    assert done.returncode == 2
    assert f"error: {message}" in done.stderr
    assert not spool.sweeps(tmp_path)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:1", "hydra.launcher.address=127.0.0.1:1: nothing answers there: Connection refused"),
        ("head", "hydra.launcher.address=head: must be auto (the Ray of this machine) or <head>:<port>"),
    ],
)
def test_a_head_that_is_not_there_is_refused_soon(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    address: str,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    begun = time.monotonic()
    lines = ["--config-dir", str(sweeps.FAMILIES), "kernel=faulty", "seed=1,2", ON_RAY, "gpu=host"]
    assert main([*lines, f"hydra.launcher.address={address}", "-m"]) == 2
    assert time.monotonic() - begun < 60
    assert capsys.readouterr().err.startswith(f"error: {message}")
    assert not spool.sweeps(tmp_path)
