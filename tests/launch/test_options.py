"""A launcher's options, checked before anything is submitted."""

from __future__ import annotations

from typing import Any

import pytest

from runner.config.errors import ConfigError
from runner.launch import options
from runner.launch.gpus import Gpus
from runner.launch.ray_cluster import Ray
from runner.launch.slurm import Slurm


def test_what_is_given_replaces_the_defaults() -> None:
    read = options.read(Slurm, "slurm", {"partition": "h100", "features": {"h100_sxm": "h100"}, "mem_gb": 4})
    assert (read.partition, read.features, read.mem_gb) == ("h100", {"h100_sxm": "h100"}, 4.0)
    assert read.gres == "gpu" and read.timeout_min == 60


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (Slurm, {"partion": "x"}, "hydra.launcher.partion=x: hydra/launcher=it has no such option; did you mean"),
        (Slurm, {"timeout_min": "soon"}, "hydra.launcher.timeout_min=soon: must be an integer"),
        (Slurm, {"mem_gb": "much"}, "hydra.launcher.mem_gb=much: must be a number, or null"),
        (Slurm, {"setup": "module load"}, "hydra.launcher.setup=module load: must be a list, e.g."),
        (Slurm, {"features": "h100"}, "hydra.launcher.features=h100: must be a mapping, e.g."),
        (Gpus, {"devices": ["a"]}, "hydra.launcher.devices=['a']: must be a list of integers, or null"),
        (Gpus, {"devices": 3}, "hydra.launcher.devices=3: must be a list, e.g. hydra.launcher.devices=[3], or null"),
        (Ray, {"num_cpus": "two"}, "hydra.launcher.num_cpus=two: must be a number"),
    ],
)
def test_a_wrong_option_is_named_with_what_is_allowed(kind: type, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        options.read(kind, "it", given)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "given", [{"password": "hunter2"}, {"adress": "http://u:hunter2@h"}, {"mem_gb": "a://u:hunter2@h"}]
)
def test_an_error_holds_no_secret(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"\*\*\*") as caught:
        options.read(Slurm, "it", given)
    assert "hunter2" not in str(caught.value)


def test_a_number_that_is_too_small() -> None:
    options.at_least("timeout_min", None, 1)
    with pytest.raises(ConfigError, match=r"hydra\.launcher\.timeout_min=0: must be at least 1"):
        options.at_least("timeout_min", 0, 1)
    with pytest.raises(ConfigError, match=r"hydra\.launcher\.mem_gb=nan: must be at least 0.001"):
        options.at_least("mem_gb", float("nan"), 0.001)
