"""``quant_decode`` on the host backend: weights on their way, at sizes that fill the tiles of a team and do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runner.plan.planner import make_plan
from tests.kernels.hosted import hosted, messages
from tests.kernels.plans import H200, SOURCES, config, plan


@pytest.mark.parametrize(
    ("rows", "columns", "group"),
    [
        (16, 256, 128),  # two warps share each tile, the others have none
        (37, 768, 256),  # a tile that is not full; more warps than groups of a tile
        (2117, 1024, 128),  # several tiles for each team, the last ones for some
        (65, 2304, 1152),  # a group that ends within a row's pieces
        (300, 4096, 4096),  # one scale a row
    ],
)
def test_every_variant_passes(rows: int, columns: int, group: int) -> None:
    _, outcomes, left_out = hosted("quant_decode", {"N": rows, "K": columns, "group": group})
    assert (messages(outcomes), left_out) == ({}, {})
    assert list(outcomes) == ["fp32", "q8", "q8_tensor", "q4"]


@pytest.mark.parametrize(("columns", "group"), [(384, 128), (512, 64), (129, 128)])
def test_payloads_that_lie_in_no_tiles_leave_it_out(columns: int, group: int) -> None:
    _, outcomes, left_out = hosted("quant_decode", {"N": 20, "K": columns, "group": group})
    assert messages(outcomes) == {}
    assert list(left_out) == ["q8_tensor"] and "payloads lie in tiles then" in left_out["q8_tensor"]


def test_a_block_has_what_the_gpu_gives_it() -> None:
    made = plan("quant_decode", {"N": 4096, "K": 14336}, target=H200)
    (launch,) = made.variant("q8_tensor").launches
    assert launch.shared_bytes == 16 * 4 * (4 * 512 + 64) + 2 * 16 * 16 * 4 + 4 * 14336
    assert launch.grid[0] == min(4096 // 16, H200.sms)
    small, left_out = make_plan(config("quant_decode", {"K": 4096}), replace(H200, arch="sm_89"), [SOURCES])
    assert [variant.name for variant in small.variants] == ["fp32", "q8", "q4"]
    assert "must fit into a block's shared memory" in left_out["q8_tensor"]
