from __future__ import annotations

import re
from typing import Any

import pytest

from runner.config.errors import ConfigError
from tests.kernels.hosted import hosted, messages
from tests.kernels.plans import plan

VARIANTS = [
    "contiguous_scan",
    "contiguous_token_scan",
    "paged_ordered_scan",
    "paged_fragmented_scan",
    "softmax_contiguous",
    "softmax_ordered",
    "softmax_fragmented",
]


@pytest.mark.parametrize(
    "params",
    [
        {"B": 3, "H": 5, "T": 37, "D": 16, "page": 16},
        {"B": 1, "H": 1, "T": 1, "D": 16, "page": 64},
        {"B": 2, "H": 1, "T": 331, "D": 80, "page": 7},
        {"B": 1, "H": 3, "T": 129, "D": 176, "page": 32},
    ],
    ids=lambda params: "-".join(str(value) for value in params.values()),
)
def test_every_variant_passes(params: dict[str, Any]) -> None:
    made, outcomes, left_out = hosted("paged_kv_decode", params)
    assert messages(outcomes) == {} and left_out == {}
    assert list(outcomes) == VARIANTS
    assert made.shape_line == "paged KV decode shape B={B} T={T} H={H} D={D} page={page}".format(**params)


@pytest.mark.parametrize("page", [8, 16, 32, 64])
@pytest.mark.parametrize("context", [2048, 2049])
def test_table_bytes_and_fragmentation(page: int, context: int) -> None:
    made = plan("paged_kv_decode", {"B": 2, "T": context, "H": 16, "D": 128, "page": page})
    width = -(-context // page)
    payload, out = 2 * 2 * context * 16 * 128 * 4, 2 * 16 * 128 * 4
    for variant in made.variants:
        paged = "contiguous" not in variant.name
        softmax = variant.name.startswith("softmax")
        table = 2 * width * 4 if paged else 0
        assert variant.bytes_read == payload + table + (out if softmax else 0)
        assert variant.bytes_written == out
        assert variant.report["table_bytes"] == table
        assert variant.report["internal_fragmentation"] == (1 - context / (width * page) if paged else 0)
        assert variant.report["kv_bytes"] == (2 * 2 * width * page * 16 * 128 * 4 if paged else payload)
    assert made.defines == {"HEAD_DIM": "128", "PAGE": str(page)}


def test_grid_is_one_equal_wave_on_an_h200() -> None:
    made = plan("paged_kv_decode", {"B": 2, "T": 2048, "H": 16, "D": 128})
    assert {variant.launches[0].grid for variant in made.variants} == {(264, 1, 1)}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"page": 0}, "page=0: must be at least 1"),
        ({"page": -16}, "page=-16: must be at least 1"),
        ({"D": 72}, "D=72: must be a multiple of 16"),
        ({"H": 0}, "H=0: must be at least 1"),
        ({"T": 0}, "T=0: must be at least 1"),
        ({"B": 65536, "T": 65536, "page": 1}, "the page table holds 32-bit page numbers"),
    ],
)
def test_bad_parameters_are_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        plan("paged_kv_decode", params)
