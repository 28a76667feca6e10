"""How much shared memory a block may have, for every GPU there is an option for."""

from __future__ import annotations

import pytest
from omegaconf import OmegaConf

from runner.paths import conf_dir
from runner.plan.limits import capability, shared_limit


@pytest.mark.parametrize(
    ("arch", "kib"),
    [
        ("sm_75", 64),
        ("sm_80", 163),
        ("sm_89", 99),
        ("sm_90a", 227),
        ("sm_100a", 227),
        ("sm_120a", 99),
        ("sm_70", 48),
        ("", 227),
    ],
)
def test_shared_memory_of_a_block(arch: str, kib: int) -> None:
    assert shared_limit(arch) == 1024 * kib


def test_every_gpu_of_the_group_is_known() -> None:
    for path in (conf_dir() / "gpu").glob("*.yaml"):
        arch = str(OmegaConf.select(OmegaConf.load(path), "arch", default=""))
        assert shared_limit(arch) > 48 * 1024, path.stem


@pytest.mark.parametrize(("arch", "number"), [("", 0), ("sm_75", 75), ("sm_90a", 90), ("sm_120f", 120), ("auto", 0)])
def test_capability(arch: str, number: int) -> None:
    assert capability(arch) == number
