"""Figures that a family reports by arithmetic: known ones, and those that a target does not tell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.plan.errors import FamilyError
from runner.plan.planner import make_plan
from tests.kernels.plans import H200, plan
from tests.plan.families import TARGET, config, kernel, roots


def reported(folder: Path, memory_bytes: int, **spec: Any) -> dict[str, float]:
    family = kernel()
    for field, value in spec.items():
        setattr(family.variants["plain"], field, value)
    made, _ = make_plan(config(family), replace(TARGET, memory_bytes=memory_bytes), roots(folder))
    return made.variant("plain").report


def test_a_figure_without_a_value_is_absent(tmp_path: Path) -> None:
    report = {"most": "memory_bytes // R if memory_bytes else ''", "twice": "2 * R"}
    assert reported(tmp_path, 6 << 30, report=report) == {"most": float(1 << 30), "twice": 12.0}
    assert reported(tmp_path, 0, report=report) == {"twice": 12.0}


def test_any_other_text_is_no_figure(tmp_path: Path) -> None:
    with pytest.raises(FamilyError, match=r"report.most: ''many'' gives 'many', not a number"):
        reported(tmp_path, 0, report={"most": "'many'"})


@pytest.mark.parametrize(("kv", "each"), [("fp32", 4 * 128), ("bf16", 2 * 128), ("int8", 128 + 4), ("fp8", 128)])
@pytest.mark.parametrize("page", [0, 16])
def test_the_cache_at_its_peak_and_the_largest_context(kv: str, each: int, page: int) -> None:
    """Llama 3 8B in bf16: 8.03 billion parameters, 8 KV heads of 128 in 32 layers."""
    params = {"B": 3, "prompt": 33, "steps": 8, "kv": kv, "page": page, "weights": "bf16"}
    memory = 80 * 10**9
    made = plan("mini_llm", params, replace(H200, memory_bytes=memory))
    token = 2 * 32 * 8 * each
    report = made.variant("graph").report
    assert report["kv_peak_bytes"] == 3 * (41 if page == 0 else 48) * token
    assert made.variant("prefill").report["kv_peak_bytes"] == 3 * (33 if page == 0 else 48) * token
    room = 0.95 * memory - 2 * 8.03e9
    assert report["max_context"] == pytest.approx(room / (token + 4 * 128), rel=1e-3)
    assert "max_context" not in plan("mini_llm", params).variant("graph").report


def test_quantised_weights_leave_room_for_a_longer_context() -> None:
    """What the weights save, in tokens; the originals, from which they are made here, do not count."""
    card = replace(H200, memory_bytes=32 * 10**9)
    made = [plan("mini_llm_quality", {"weights": word}, card) for word in ("bf16", "w8a16", "w4a16")]
    weights = [one.variant("quality").report["weight_bytes"] for one in made]
    found = [one.variant("quality").report["max_context"] for one in made]
    token = 2 * 32 * 8 * 2 * 128 + 4 * 128
    for i in (1, 2):
        assert found[i] - found[0] == pytest.approx((weights[0] - weights[i]) / token, abs=1)
