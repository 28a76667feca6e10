"""``layer_ops`` on the host backend: every operator that a load has, those that it has not, and what a launch costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from runner.workload.layer_ops import LayerOps
from tests.kernels.hosted import hosted, messages
from tests.kernels.plans import HOST, plan
from tests.kernels.test_mini_llm_host import CONFIGURATIONS, named

FEW = {"decode_norm", "decode_activation"}
"""Decoding few tokens has no such operator of its own."""
PREFILL = {"prefill_norm", "prefill_activation"}


def params(name: str) -> dict[str, Any]:
    """As ``mini_llm`` is tested, with the layers that are meant."""
    found = {key: value for key, value in CONFIGURATIONS[name].items() if key not in ("L", "steps")}
    return {**found, "layers": 3, "L": 2}


@pytest.mark.parametrize(
    ("name", "absent"), [("fp32", FEW | PREFILL), ("w8a16", FEW | PREFILL), ("bf16_int8", FEW), ("bf16", set())]
)
def test_every_operator_of_a_load_passes(name: str, absent: set[str]) -> None:
    made, outcomes, left_out = hosted("layer_ops", params(name))
    assert messages(outcomes) == {}
    assert set(left_out) == absent
    assert all("(needs few_" in reason for reason in left_out.values())
    operators = {"embed", "norm", "qkv", "attention", "out", "gate_up", "activation", "down"}
    expected = {f"decode_{one}" for one in operators | {"logits", "sampler"}}
    expected |= {f"prefill_{one}" for one in operators | {"rope"}}
    assert set(outcomes) == expected - absent | {"empty", "chain"}
    for name, outcome in outcomes.items():
        assert outcome.units_per_step == 1
        of_a_layer = name.startswith("decode_") and name[7:] not in ("embed", "logits", "sampler")
        nodes = 64 if name == "chain" else 4 if name == "decode_norm" else 2 if of_a_layer else None
        assert outcome.metrics.get("nodes") == nodes, "a node for each held layer"
        assert ("call_us" in made.variant(name).timed) == of_a_layer


def test_calls_of_a_pass() -> None:
    made = plan("layer_ops", params("bf16"), HOST)
    calls = {variant.name: variant.report["calls"] for variant in made.variants}
    assert {name for name, count in calls.items() if count == 1} == {
        "decode_embed", "decode_logits", "decode_sampler", "prefill_embed",
    }  # fmt: skip
    assert {name for name, count in calls.items() if count == 2 * 3} == {"decode_norm", "prefill_norm"}
    assert {name for name, count in calls.items() if count == 0} == {"empty", "chain"}
    assert sum(count == 3 for count in calls.values()) == len(calls) - 8
    # A token of mini_llm is as many launches: those of its layers, and what surrounds them.
    assert sum(count for name, count in calls.items() if name.startswith("decode_")) == 8 * 3 + 3
    assert made.symbols["nodes"] == 64


def test_each_node_is_another_layer() -> None:
    made = plan("layer_ops", {**params("bf16"), "L": 3}, HOST)
    launches = LayerOps(named(made))._launches("decode_out")
    assert {str(launch.function) for launch in launches} == {"many_residual_kernel"}
    assert [str(launch.arguments[5]) for launch in launches] == ["0", "1", "2"]


def test_a_chain_is_many_empty_kernels() -> None:
    _, outcomes, _ = hosted("layer_ops", params("fp32"))
    empty, chain = (float(np.median(outcomes[name].series[0].samples_us)) for name in ("empty", "chain"))
    assert chain > empty
