from __future__ import annotations

import re
from typing import Any

import pytest

from runner.config.errors import ConfigError
from runner.plan.planner import make_plan
from tests.kernels.hosted import hosted, messages
from tests.kernels.plans import HOST, SOURCES, config, plan

RUN = {"B": 8, "prefix": 128, "hit": 75, "share": 4, "page": 16, "H": 16, "D": 128}
SMALL = {"B": 5, "prefix": 37, "hit": 75, "share": 2, "page": 8, "H": 3, "D": 20}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"hit": 100},
        {"hit": 100, "prefix": 32},  # nothing is missed
        {"B": 1, "prefix": 1, "page": 1, "H": 1, "D": 1, "hit": 100, "share": 8},
        {"D": 7, "hit": 30, "share": 1},
        {"D": 1, "H": 1, "page": 1, "B": 7, "hit": 50},
        {"page": 64, "hit": 0},  # the only page is a partial one
    ],
    ids=str,
)
def test_every_variant_passes(changes: dict[str, Any]) -> None:
    made, outcomes, left_out = hosted("prefix_cache", {**SMALL, **changes})
    assert messages(outcomes) == {}
    expected = ["no_cache", "alias", "copy", "table_update"]
    assert list(outcomes) == expected[: 4 if made.symbols["hit_pages"] else 3]
    assert set(left_out) == ({"table_update"} if made.symbols["hit_pages"] == 0 else set())


@pytest.mark.parametrize(("hit", "pages"), [(0, 0), (25, 2), (50, 4), (75, 6), (100, 8)])
@pytest.mark.parametrize("share", [1, 2, 4, 8])
def test_bytes_avoided(hit: int, pages: int, share: int) -> None:
    made, left_out = make_plan(config("prefix_cache", {**RUN, "hit": hit, "share": share}), HOST, [SOURCES])
    assert ("table_update" in left_out) == (hit == 0)
    assert made.shape_line == f"prefix cache shape B=8 prefix_pages=8 hit_pages={pages} miss_pages={8 - pages}"
    page = 2 * 16 * 16 * 128 * 4
    table = 8 * 8 * 8
    cached = 8 // share * pages
    no_cache, alias, copy = (made.variant(name) for name in ("no_cache", "alias", "copy"))
    assert (no_cache.bytes_read, no_cache.bytes_written) == (64 * page, 64 * page + table)
    assert alias.bytes_read == 8 * (8 - pages) * page + 4 * cached
    assert alias.bytes_written == 8 * (8 - pages) * page + table
    assert copy.bytes_read == (cached + 8 * (8 - pages)) * page
    assert copy.bytes_written == no_cache.bytes_written
    for variant in (no_cache, alias, copy):
        assert variant.report["hbm_bytes_avoided"] == no_cache.bytes_moved - variant.bytes_moved
        assert variant.timed == {"ttft_proxy_us": "time_us"}
        assert variant.report["table_update_bytes"] == table
    assert no_cache.report["resident_bytes"] == 64 * page
    assert alias.report["resident_bytes"] == (cached + 8 * (8 - pages)) * page
    assert copy.report["resident_bytes"] == (cached + 64) * page


def test_a_partial_page_is_never_a_hit() -> None:
    made = plan("prefix_cache", {**RUN, "prefix": 130, "hit": 100})
    assert (made.symbols["prefix_pages"], made.symbols["hit_pages"], made.symbols["miss_pages"]) == (9, 8, 1)


def test_empty_grids_at_both_ends() -> None:
    none = make_plan(config("prefix_cache", {**RUN, "hit": 0}), HOST, [SOURCES])[0]
    assert [launch.grid[0] > 0 for launch in none.variant("alias").launches] == [False, True]
    every = plan("prefix_cache", {**RUN, "hit": 100})
    assert [launch.grid[0] > 0 for launch in every.variant("copy").launches] == [True, False]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"page": 0}, "page=0: must be at least 1"),
        ({"hit": 101}, "hit=101: must be at most 100"),
        ({"hit": -1}, "hit=-1: must be at least 0"),
        ({"share": 0}, "share=0: must be at least 1"),
        ({"prefix": 0}, "prefix=0: must be at least 1"),
        ({"page": 8192}, "a page (2 * page * H * D) has at most 4194303 words"),
        ({"B": 65536, "prefix": 32768}, "B * prefix is at most 1073741823 tokens"),
    ],
)
def test_bad_parameters_are_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        plan("prefix_cache", params)
