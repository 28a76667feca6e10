"""The fused tail of a layer: odd sizes on the host backend, launches and bytes of the plan."""

from __future__ import annotations

import re

import pytest

from runner.config.errors import ConfigError
from tests.kernels.on_host import failures, outcomes
from tests.kernels.plans import H200, plan

CHECKS = {
    "separate": ["separate_norm", "separate_scale", "separate_quant"],
    "fused": ["fused_norm", "fused_scale", "fused_quant"],
    "fused_no_norm": ["fused_no_norm_scale", "fused_no_norm_quant"],
}


@pytest.mark.parametrize(("b", "h"), [(1, 1), (3, 33), (2, 132), (5, 4100)])
def test_odd_sizes(b: int, h: int) -> None:
    found = outcomes("fusion", {"B": b, "H": h})
    assert failures(found) == {}
    assert {name: [check.name for check in one.checks] for name, one in found.items()} == CHECKS


def test_threads_follow_the_rows() -> None:
    few = plan("fusion", {"B": 16, "H": 4096})
    assert few.defines == {"HIDDEN": "4096", "THREADS": "1024"}
    assert [launch.grid for launch in few.variant("separate").launches] == [
        (64, 1, 1),
        (16, 1, 1),
        (16, 1, 1),
        (16, 4, 1),
    ]
    many = plan("fusion", {"B": 264, "H": 4096})
    assert many.defines == {"HIDDEN": "4096", "THREADS": "256"}
    odd = plan("fusion", {"B": 1, "H": 1001})
    assert odd.defines == {"HIDDEN": "1001", "THREADS": "256"}
    assert odd.variant("separate").launches[3].grid == (1, 4, 1)


@pytest.mark.parametrize(("b", "reaches_memory"), [(16, False), (4096, True)])
def test_bytes(b: int, reaches_memory: bool) -> None:
    made = plan("fusion", {"B": b, "H": 4096}, H200)
    row, gamma, array = 4 * b, 4 * 4096, 4 * b * 4096
    separate, fused, least = (made.variant(name) for name in CHECKS)
    through_memory = 4 * array if reaches_memory else 0  # the sum out and in, the norm in twice
    assert fused.bytes_moved == 3 * array + array // 4 + gamma + row
    assert least.bytes_moved == fused.bytes_moved - array
    assert separate.bytes_moved == fused.bytes_moved + through_memory
    # What kernels load and store: each array as often as a kernel names it.
    add, norm, absmax, quantise = 3 * array, 2 * array + gamma, array + row, array + row + array // 4
    assert separate.report == {"launches": 4, "global_bytes": add + norm + absmax + quantise, "bytes_saved": 0}
    for variant in (fused, least):
        assert variant.report["global_bytes"] == variant.bytes_moved
        assert variant.report["bytes_saved"] == separate.report["global_bytes"] - variant.bytes_moved


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"B": 0}, "kernel.params.B=0: must be at least 1"),
        ({"H": -4}, "kernel.params.H=-4: must be at least 1"),
        ({"H": 16385}, "kernel.params.H=16385: must be at most 16384"),
    ],
)
def test_refused(params: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        plan("fusion", params)
