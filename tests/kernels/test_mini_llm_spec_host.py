"""``mini_llm_spec`` on the host backend: the greedy text whatever is proposed, what is accepted, what is refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from runner.backend.host import HostBackend
from runner.check.case import Case
from runner.config.errors import ConfigError
from runner.references import mini_llm_spec
from tests.kernels.hosted import hosted, messages, programs
from tests.kernels.plans import HOST, plan

SMALL: dict[str, Any] = {
    **{"B": 2, "L": 2, "h": 24, "H": 4, "KVH": 2, "D": 6, "I": 40, "V": 97, "prompt": 5, "steps": 8},
    **{"bias": True, "tied": False, "weights": "fp32", "kv": "fp32"},
}


def figures(**params: Any) -> dict[str, float]:
    """The metrics of ``spec``; both variants have to write the text of the reference."""
    _, outcomes, left_out = hosted("mini_llm_spec", {**SMALL, **params})
    assert (list(outcomes), messages(outcomes), left_out) == (["plain", "spec"], {}, {})
    for outcome in outcomes.values():
        assert all(check.rows_checked == check.rows_total for check in outcome.checks)
        assert outcome.units_per_step == params.get("steps", 8)
    assert "acceptance_rate" not in outcomes["plain"].metrics and "tpot_us_p50" in outcomes["plain"].metrics
    return outcomes["spec"].metrics


@pytest.mark.parametrize(("steps", "windows"), [(8, 2), (7, 2), (1, 1)])
def test_a_draft_of_all_layers_is_always_right(steps: int, windows: int) -> None:
    found = figures(draft=3, draft_layers=2, steps=steps)
    assert found["acceptance_rate"] == 1
    assert (found["verifications"], found["tokens_per_verification"]) == (windows, steps / windows)


@pytest.mark.parametrize("draft", [1, 5])
def test_a_draft_of_one_layer_is_mostly_wrong_and_does_no_harm(draft: int) -> None:
    found = figures(draft=draft, draft_layers=1)
    assert 0 <= found["acceptance_rate"] < 0.5
    assert 4 < found["verifications"] <= 8
    assert found["tokens_per_verification"] == pytest.approx(8 / found["verifications"])


def test_many_tokens_in_a_window_quantised_weights_and_pages() -> None:
    """A verification of 18 tokens takes the kernels of many, and a sequence's window crosses pages."""
    found = figures(B=3, draft=5, draft_layers=1, weights="w8a16", kv="int8", page=4)
    assert found["tokens_per_verification"] >= 1


def test_what_a_window_yields() -> None:
    """Of 3 proposals: two right, none, all, all but only two tokens wanted; the last sequence is at its end."""
    batch, draft, prompt, steps = 5, 3, 4, 9
    proposals = np.array([[7, 1, 2, 9], [7, 8, 2, 3], [7, 1, 2, 3], [7, 1, 2, 3], [7, 1, 2, 3]], np.int32)
    chosen = np.tile(np.array([1, 2, 3, 4], np.int32), (batch, 1))
    state = {
        "ids": np.full(batch, 7, np.int32),
        "position": np.array([4, 4, 6, 11, 13], np.int32),
        "draft_ids": np.full(batch, 99, np.int32),
        "draft_position": np.full(batch, 99, np.int32),
        "tokens": np.full((batch, steps + 1), -1, np.int32),
        "accepted": np.full(batch, 10, np.int32),
        "windows": np.full(batch, 20, np.int32),
    }
    device = HostBackend().open(0)
    stream = device.stream()
    try:
        module = device.load(programs(plan("mini_llm_spec", {**SMALL, "draft": 3}, HOST))["main"])
        buffers = []
        for values in (proposals, chosen, *state.values()):
            buffers.append(device.allocate(values.nbytes))
            stream.write(buffers[-1], values)
        sizes = (np.int64(batch), np.int64(draft), np.int64(prompt), np.int64(steps))
        stream.launch(module.function("accept_kernel"), (1, 1, 1), (256, 1, 1), 0, (*buffers, *sizes))
        for buffer, values in zip(buffers[2:], state.values(), strict=True):
            stream.read(values, buffer)
        stream.synchronize()
    finally:
        device.close()
    assert state["ids"].tolist() == [3, 1, 4, 2, 7]
    assert state["position"].tolist() == [7, 5, 10, 13, 13]
    assert state["draft_ids"].tolist() == state["ids"].tolist()
    assert state["draft_position"].tolist() == state["position"].tolist()
    assert state["accepted"].tolist() == [12, 10, 13, 13, 10]
    assert state["windows"].tolist() == [21, 21, 21, 21, 20]
    none = [-1] * 10
    assert state["tokens"].tolist() == [
        [-1, 1, 2, 3, *none[:6]],
        [-1, 1, *none[:8]],
        [-1, -1, -1, 1, 2, 3, 4, *none[:3]],
        [*none[:8], 1, 2],
        none,
    ]


def test_tables_of_a_window() -> None:
    case = Case(plan("mini_llm_spec", {**SMALL, "draft": 2}, HOST))
    made = {name: mini_llm_spec.inputs(case, name).tolist() for name in ("window_slot", "window_rows", "window_runs")}
    assert made == {
        "window_slot": [0, 0, 0, 1, 1, 1],
        "window_rows": [0, 1, 2, 3, 4, 5],
        "window_runs": [[0, 3], [3, 3]],
    }
    assert mini_llm_spec.inputs(case, "each").tolist() == [0, 1]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"top_k": 8}, "speculation accepts what the model chooses"),
        ({"draft_layers": 3}, "kernel.params.draft_layers=3: must be at most 2 (L)"),
        ({"draft": 16}, "kernel.params.draft=16: must be at most 15"),
        ({"draft": 0}, "kernel.params.draft=0: must be at least 1"),
    ],
)
def test_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        plan("mini_llm_spec", {**SMALL, **params})
