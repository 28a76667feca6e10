"""``sampler`` on the host backend: odd widths, one row, ties that only the index can break."""

from __future__ import annotations

import re
from typing import Any

import pytest

from runner.config.errors import ConfigError
from runner.config.schema import Config
from tests.kernels import hosted as host
from tests.kernels.hosted import hosted, messages
from tests.kernels.plans import H200, config, plan

CHECKS = ["argmax_value", "argmax_index", "softmax_sum", "top4_value", "top4_index"]


@pytest.mark.parametrize(
    "params",
    [
        {"B": 1, "V": 4},
        {"B": 7, "V": 5},
        {"B": 1, "V": 1023},
        {"B": 3, "V": 4099, "temperature": 0.1},
        {"B": 1, "V": 50257},
        {"B": 2, "V": 2050, "temperature": 5.0},
    ],
    ids=str,
)
def test_every_variant_passes(params: dict[str, Any]) -> None:
    made, outcomes, left_out = hosted("sampler", params)
    assert (messages(outcomes), left_out) == ({}, {})
    assert [check.name for outcome in outcomes.values() for check in outcome.checks] == CHECKS
    assert made.shape_line.startswith(f"sampler shape B={params['B']} V={params['V']} temperature=")


@pytest.mark.parametrize(("low", "high"), [(-2, 3), (0, 1), (-1, 1)])
@pytest.mark.parametrize(("batch", "width"), [(3, 7), (1, 4099)])
def test_ties_go_to_the_lowest_index(
    low: int, high: int, batch: int, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tied(family: str, params: dict[str, Any]) -> Config:
        made = config(family, params)
        logits = made.kernel.buffers["logits"]
        logits.fill, logits.low, logits.high = "integers", low, high
        return made

    monkeypatch.setattr(host, "config", tied)
    made, outcomes, _ = hosted("sampler", {"B": batch, "V": width})
    assert made.symbols["parts"] == (1 if width < 1024 else 4)
    assert messages(outcomes) == {}


@pytest.mark.parametrize(("batch", "parts"), [(1, 126), (16, 17), (64, 5), (1000, 1)])
def test_a_small_batch_fills_the_device(batch: int, parts: int) -> None:
    made = plan("sampler", {"B": batch}, H200)
    assert all(variant.launches[0].grid == (parts, batch, 1) for variant in made.variants)
    assert all(variant.bytes_read == 4 * batch * 128256 for variant in made.variants)
    assert [variant.bytes_written for variant in made.variants] == [8 * batch, 4 * batch, 32 * batch]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"V": 3}, "V=3: must be at least 4"),
        ({"B": 0}, "B=0: must be at least 1"),
        ({"B": 65536}, "B=65536: must be at most 65535"),
        ({"temperature": 0.0}, "temperature=0.0: must be at least 0.01"),
        ({"temperature": "nan"}, "temperature=nan: must be"),
    ],
    ids=str,
)
def test_bad_parameters_are_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"kernel.params.{message}")):
        plan("sampler", params)
