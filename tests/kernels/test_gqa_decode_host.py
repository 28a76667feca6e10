"""``gqa_decode`` end to end on the host backend: odd sizes, every grouping, what is refused."""

from __future__ import annotations

import pytest

from runner.config.errors import ConfigError
from tests.kernels.on_host import failures, outcomes
from tests.kernels.plans import H200, plan


@pytest.mark.parametrize(
    "params",
    [
        {"B": 1, "T": 1, "QH": 1, "KVH": 1, "D": 16},  # one token, one head
        {"B": 2, "T": 37, "QH": 6, "KVH": 3, "D": 48},  # nothing is a multiple of anything
        {"B": 1, "T": 67, "QH": 14, "KVH": 2, "D": 16},  # groups that leave part of a block's queries empty
        {"B": 3, "T": 130, "QH": 5, "KVH": 5, "D": 16},  # gqa is mha
        {"B": 1, "T": 33, "QH": 34, "KVH": 1, "D": 16},  # more query heads than a block holds
        {"B": 1, "T": 200, "QH": 4, "KVH": 1, "D": 128},  # parts of one head from several blocks
    ],
)
def test_every_variant(params: dict[str, int]) -> None:
    found = outcomes("gqa_decode", params)
    assert len(found) == 8 and failures(found) == {}


def test_kv_bytes_follow_the_kv_heads() -> None:
    made = plan("gqa_decode", {"B": 2, "T": 2048, "QH": 32, "KVH": 8, "D": 128})
    one = 2 * 2 * 2048 * 128 * 4  # K and V of one head of both sequences
    for name, heads in (("mha", 32), ("gqa", 8), ("mqa", 1)):
        for form in (name, f"softmax_{name}"):
            variant = made.variant(form)
            assert variant.report == {"kv_bytes": heads * one, "bytes_ratio": heads / 32, "group": 32 / heads}
            assert variant.bytes_read == heads * one + 2 * 32 * 128 * 4
    assert made.shape_line == "gqa decode shape B=2 T=2048 QH=32 GQA_KVH=8 D=128"


@pytest.mark.parametrize("heads", [1, 2, 3, 5, 8, 12, 16, 31, 32, 33, 64, 96, 128])
def test_blocks_hold_every_query_head(heads: int) -> None:
    made = plan("gqa_decode", {"QH": heads, "KVH": 1, "D": 128, "T": 4096}, H200)
    queries, subsets = int(made.defines["MQA_QUERIES"]), int(made.defines["MQA_SUBSETS"])
    passes = made.variant("mqa").launches[0].grid[1]
    assert queries <= 4 and subsets in (1, 2, 4, 8)
    assert queries * subsets * (passes - 1) < heads <= queries * subsets * passes


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"QH": 32, "KVH": 5}, "QH=32, KVH=5"),
        ({"KVH": 0}, "kernel.params.KVH=0: must be at least 1"),
        ({"QH": 4, "KVH": 8}, "kernel.params.KVH=8: must be at most 4"),
        ({"D": 24}, "kernel.params.D=24: must be a multiple of 16"),
        ({"B": -1}, "kernel.params.B=-1: must be at least 1"),
    ],
)
def test_bad_heads_are_refused(params: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        plan("gqa_decode", params)
