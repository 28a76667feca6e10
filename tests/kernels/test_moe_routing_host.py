"""``moe_routing`` end to end on the host backend: odd sizes, skew, drops, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from runner.config.errors import ConfigError
from tests.kernels.on_host import failures, outcomes
from tests.kernels.plans import plan


@pytest.mark.parametrize(
    "params",
    [
        {"T": 1, "H": 1, "E": 1, "K": 1},  # one token, one element
        {"T": 37, "H": 33, "E": 5, "K": 3, "routing": "zipf"},
        {"T": 50, "H": 66, "E": 8, "K": 8, "factor": 1.0},  # every expert, exactly full
        {"T": 65, "H": 20, "E": 7, "K": 1, "slots": 1},  # nearly all dropped
    ],
)
def test_every_variant(params: dict[str, Any]) -> None:
    found = outcomes("moe_routing", params)
    assert len(found) == 2 and failures(found) == {}


def test_counts_drops_and_waste() -> None:
    found = outcomes("moe_routing", {"T": 100, "H": 20, "E": 4, "K": 2, "routing": "zipf", "skew": 2.0, "slots": 60})
    padded, compact = found["padded"].metrics, found["compact"].metrics
    counts = [padded[f"expert_count_{e}"] for e in range(4)]
    assert sum(counts) == 200 and max(counts) == padded["expert_count_max"] <= 100
    kept = sum(min(count, 60) for count in counts)
    assert 0 < padded["drop_rate"] == pytest.approx(1 - kept / 200)
    assert padded["padding_waste"] == pytest.approx(1 - kept / 240)
    assert compact["drop_rate"] == compact["padding_waste"] == 0


def test_capacity_and_bytes() -> None:
    made = plan("moe_routing", {"T": 4096, "H": 1024, "E": 8, "K": 1, "factor": 1.25})
    assert made.symbols["capacity"] == 640
    assert made.shape_line == "moe routing shape T=4096 H=1024 E=8 K=1 capacity=640"
    row = 4096
    tables = (4096 * 4 * 3, 2 * 8 * row)  # two maps of rows, the gates; scale and bias
    compact = made.variant("compact")
    assert compact.bytes_moved == 6 * 4096 * row + tables[0] + 4096 * 4 + tables[1]
    assert plan("moe_routing", {"T": 10, "E": 4, "K": 1, "factor": 1.0}).symbols["capacity"] == 3
    assert plan("moe_routing", {"slots": 7}).symbols["capacity"] == 7


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"E": 2, "K": 3}, "K=3, E=2"),
        ({"K": 9}, "kernel.params.K=9: must be at most 8"),
        ({"E": 0}, "kernel.params.E=0: must be at least 1"),
        ({"factor": 0}, "kernel.params.factor=0: must be at least 0.01"),
        ({"routing": "even"}, "kernel.params.routing=even: must be one of uniform, zipf"),
        ({"slots": -1}, "kernel.params.slots=-1: must be at least 0"),
    ],
)
def test_bad_input_is_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        plan("moe_routing", params)
