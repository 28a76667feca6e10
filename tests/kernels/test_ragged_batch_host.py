"""``ragged_batch`` end to end on the host backend: distributions, a file of lengths, odd sizes, what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from runner.config.errors import ConfigError
from tests.kernels.on_host import failures, outcomes
from tests.kernels.plans import plan

SMALL: dict[str, Any] = {"Bmax": 5, "active": 3, "Tmax": 37, "H": 2, "D": 16}


@pytest.mark.parametrize(
    "params",
    [
        {**SMALL, "lengths": "uniform"},
        {**SMALL, "lengths": "bimodal", "mean": 0.3, "order": "longest"},
        {**SMALL, "lengths": "long_tail", "mean": 0.2},
        {"Bmax": 1, "active": 1, "Tmax": 1, "H": 1, "D": 16},  # one token
        {"Bmax": 3, "active": 3, "Tmax": 9, "H": 1, "D": 16, "mean": 0.0},  # a token each
        {"Bmax": 3, "active": 2, "Tmax": 300, "H": 1, "D": 16, "mean": 1.0},  # no padding but an empty slot
    ],
)
def test_every_variant(params: dict[str, Any]) -> None:
    found = outcomes("ragged_batch", params)
    assert len(found) == 6 and failures(found) == {}


def test_lengths_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "lengths of a trace.txt"
    path.write_text("30\n\n1\n5\n")
    found = outcomes("ragged_batch", {**SMALL, "lengths": "file", "file": str(path), "sum": 36})
    assert failures(found) == {}
    assert found["padded_full"].metrics["tail_effect"] == 1.0
    assert found["masked_ragged"].metrics["tail_effect"] == pytest.approx(30 / (36 / 5))
    assert found["compact_active"].metrics["tail_effect"] == pytest.approx(30 / 12)
    assert found["softmax_split"].metrics["tail_effect"] == 1.0
    assert {one.metrics["longest"] for one in found.values()} == {30.0}


def test_waste_and_bytes() -> None:
    made = plan("ragged_batch")
    tokens = 37 * 1024
    assert made.shape_line.startswith("ragged batch shape Bmax=64 active=37 Tmax=2048 D=128")
    for variant in made.variants:
        assert variant.report["padded_waste"] == pytest.approx(1 - tokens / (64 * 2048))
    padded, ragged = made.variant("padded_full"), made.variant("masked_ragged")
    assert padded.report["kv_bytes"] == 64 * 2048 * 128 * 8
    assert ragged.report["kv_bytes"] == tokens * 128 * 8
    assert padded.report["wasted_bytes"] == padded.report["kv_bytes"] - ragged.report["kv_bytes"]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"active": 65}, "kernel.params.active=65: must be at most 64"),
        ({"active": 0}, "kernel.params.active=0: must be at least 1"),
        ({"lengths": "normal"}, "kernel.params.lengths=normal: must be one of uniform, bimodal, long_tail, file"),
        ({"lengths": "file"}, "needs kernel.params.file"),
        ({"lengths": "file", "file": "x"}, "needs kernel.params.sum"),
        ({"file": "x"}, "is read for lengths=file only"),
        ({"mean": 1.5}, "kernel.params.mean=1.5: must be at most 1.0"),
    ],
)
def test_bad_input_is_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        plan("ragged_batch", params)
