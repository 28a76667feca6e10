"""``logits_processor`` on the host backend: odd widths, empty lists, one id everywhere, logits that tie."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from runner.config.errors import ConfigError
from runner.config.schema import Config
from runner.references import logits_processor as reference
from tests.kernels import hosted as host
from tests.kernels.hosted import hosted, messages
from tests.kernels.plans import H200, config, plan

CHECKS = ["separate_processor", "fused_processor", "top_p_cutoff", "top_p_mass", "top_p_kept"]


@pytest.mark.parametrize(
    "params",
    [
        {"B": 1, "V": 1, "recent": 1, "bad": 0},
        {"B": 5, "V": 3, "recent": 0, "bad": 1, "temperature": 3.0},
        {"B": 1, "V": 1025, "recent": 0, "bad": 0, "top_p": 0.5},
        {"B": 3, "V": 4099, "recent": 300, "bad": 31, "penalty": 2.0},
        {"B": 2, "V": 2051, "recent": 8, "bad": 256, "temperature": 20.0, "top_p": 0.99},
        {"B": 180, "V": 6, "recent": 5, "bad": 2, "temperature": 0.05, "top_p": 0.001},
        {"B": 1, "V": 50257},
    ],
    ids=str,
)
def test_every_variant_passes(params: dict[str, Any]) -> None:
    made, outcomes, left_out = hosted("logits_processor", params)
    assert (messages(outcomes), left_out) == ({}, {})
    assert [check.name for outcome in outcomes.values() for check in outcome.checks] == CHECKS
    recent, bad = params.get("recent", 16), params.get("bad", 32)
    assert made.shape_line == f"logits processor shape B={params['B']} V={params['V']} recent={recent} bad={bad}"


def test_an_id_repeated_everywhere_is_penalised_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def repeated(case: Any, name: str) -> Any:
        return np.full((2, case["recent" if name == "recent_ids" else "bad"]), 2 if name == "recent_ids" else 1)

    monkeypatch.setattr(reference, "inputs", repeated)
    _, outcomes, _ = hosted("logits_processor", {"B": 2, "V": 9, "recent": 512, "bad": 40, "penalty": 5.0})
    assert messages(outcomes) == {}


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3, 4), (-40, 1)])
@pytest.mark.parametrize("top_p", [0.3, 0.95])
def test_a_nucleus_of_ties_keeps_as_many_as_it_takes(
    low: int, high: int, top_p: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tied(family: str, params: dict[str, Any]) -> Config:
        made = config(family, params)
        logits = made.kernel.buffers["logits"]
        logits.fill, logits.low, logits.high = "integers", low, high
        return made

    monkeypatch.setattr(host, "config", tied)
    made, outcomes, _ = hosted("logits_processor", {"B": 2, "V": 4101, "top_p": top_p, "temperature": 1.0})
    assert made.symbols["parts"] == 2
    assert messages(outcomes) == {}
    assert all(check.max_abs_err == 0 for check in outcomes["top_p"].checks if check.name != "top_p_mass")


@pytest.mark.parametrize(("recent", "bad", "launches"), [(0, 0, 1), (8, 0, 2), (0, 32, 2), (128, 256, 3)])
def test_launches_per_step(recent: int, bad: int, launches: int) -> None:
    made = plan("logits_processor", {"B": 16, "V": 50257, "recent": recent, "bad": bad}, H200)
    found = {variant.name: variant for variant in made.variants}
    assert [found[name].report["launches_per_step"] for name in ("separate", "fused", "top_p")] == [launches, 1, 3]
    for variant in made.variants:
        assert sum(0 not in launch.grid for launch in variant.launches) == variant.report["launches_per_step"]
    array = 4 * 16 * 50257
    assert found["fused"].bytes_moved == 2 * array + 64 * (recent + bad)
    assert found["separate"].bytes_moved == 2 * array + 16 * (12 * recent + 8 * bad)
    assert found["top_p"].bytes_moved == array + 12 * 16


@pytest.mark.parametrize(("batch", "blocks", "parts"), [(1, 126, 63), (16, 501, 17), (512, 16032, 1)])
def test_a_small_batch_fills_the_device(batch: int, blocks: int, parts: int) -> None:
    made = plan("logits_processor", {"B": batch}, H200)
    assert made.variant("fused").launches[0].grid == (blocks, 1, 1)
    assert all(launch.grid == (parts, batch, 1) for launch in made.variant("top_p").launches)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"V": 0}, "V=0: must be at least 1"),
        ({"V": 8388609}, "V=8388609: must be at most 8388608"),
        ({"recent": -1}, "recent=-1: must be at least 0"),
        ({"bad": -1}, "bad=-1: must be at least 0"),
        ({"top_p": 1.0}, "top_p=1.0: must be at most 0.999"),
        ({"top_p": 0.0}, "top_p=0.0: must be at least 0.001"),
        ({"penalty": 0.0}, "penalty=0.0: must be at least 0.1"),
        ({"temperature": -1.0}, "temperature=-1.0: must be at least 0.01"),
    ],
    ids=str,
)
def test_bad_parameters_are_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"kernel.params.{message}")):
        plan("logits_processor", params)
