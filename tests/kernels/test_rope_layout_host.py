"""RoPE and the layout transform: odd sizes and long positions on the host backend, and the plan."""

from __future__ import annotations

import re

import pytest

from runner.config.errors import ConfigError
from tests.kernels.on_host import failures, outcomes
from tests.kernels.plans import H200, plan

CHECKS = ["separate_sincos", "fused_sincos", "fused_lut"]


@pytest.mark.parametrize(
    ("b", "t", "h", "d"),
    [(1, 1, 1, 2), (2, 5, 3, 6), (3, 7, 1, 64), (1, 9, 33, 36), (2, 3, 40, 80)],
)
def test_odd_sizes(b: int, t: int, h: int, d: int) -> None:
    found = outcomes("rope_layout", {"B": b, "T": t, "H": h, "D": d})
    assert failures(found) == {}
    assert [check.name for one in found.values() for check in one.checks] == CHECKS


def test_late_positions_are_as_accurate_as_early_ones() -> None:
    found = outcomes("rope_layout", {"B": 1, "T": 20_000, "H": 1, "D": 4, "theta": 2.0})
    assert failures(found) == {}
    errors = [check.max_abs_err for one in found.values() for check in one.checks]
    assert all(error is not None and error < 1e-6 for error in errors)


def test_launches_and_tables() -> None:
    made = plan("rope_layout", {"B": 4, "T": 1024, "H": 32, "D": 128})
    array, table, frequency = 4 * 4 * 1024 * 32 * 128, 4 * 1024 * 64, 4 * 2 * 64
    separate, fused, lut = (made.variant(name) for name in CHECKS)
    assert [launch.grid for launch in separate.launches] == [(4096, 4, 1)] * 2
    assert separate.report == {"launches": 2, "lut_bytes": 0, "temporary_bytes": array}
    assert fused.report == {"launches": 1, "lut_bytes": 0, "temporary_bytes": 0}
    assert lut.report == {"launches": 1, "lut_bytes": 2 * table, "temporary_bytes": 0}
    assert fused.bytes_moved == 2 * array + frequency
    assert lut.bytes_moved == 2 * array + 2 * table


def test_the_array_in_between_counts_where_it_leaves_the_cache() -> None:
    small, large = ({"B": b, "T": 1024, "H": 32, "D": 128} for b in (1, 4))
    for params, arrays in ((small, 2), (large, 4)):
        made = plan("rope_layout", params, H200)
        assert made.variant("separate_sincos").bytes_moved == arrays * 4 * params["B"] * 1024 * 32 * 128 + 512


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"D": 7}, "kernel.params.D=7: must be a multiple of 2"),
        ({"D": 0}, "kernel.params.D=0: must be at least 2"),
        ({"T": -1}, "kernel.params.T=-1: must be at least 1"),
        ({"H": 0}, "kernel.params.H=0: must be at least 1"),
        ({"theta": 0.5}, "kernel.params.theta=0.5: must be at least 1.0"),
        ({"B": 1024, "T": 16777216}, "reduce B or T"),
    ],
)
def test_refused(params: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        plan("rope_layout", params)
