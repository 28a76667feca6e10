"""``mini_llm_quality`` on the host backend: the device's own logits, and a command with given tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.execute.test_sweep import QUICK, results, run
from tests.kernels.hosted import hosted, messages

SMALL: dict[str, Any] = {
    **{"B": 2, "L": 2, "h": 24, "H": 4, "KVH": 2, "D": 6, "I": 40, "V": 97, "prompt": 9, "bias": True, "tied": False},
}
FIGURES = {
    "logit_rmse", "logit_max_abs", "kl_divergence", "top1_agreement",
    "perplexity", "perplexity_unquantised", "perplexity_ratio",
}  # fmt: skip


def test_exact_formats_cost_nothing() -> None:
    _, outcomes, left_out = hosted("mini_llm_quality", {**SMALL, "weights": "fp32", "kv": "fp32"})
    assert (messages(outcomes), left_out) == ({}, {})
    (check,) = outcomes["quality"].checks
    assert check.rows_checked == check.rows_total == 18
    found = outcomes["quality"].metrics
    assert found.keys() >= FIGURES
    assert found["logit_max_abs"] < 1e-4 and found["kl_divergence"] < 1e-9 and found["top1_agreement"] == 1
    assert found["perplexity_ratio"] == pytest.approx(1, abs=1e-5)


def test_a_command_reports_what_narrow_formats_cost(tmp_path: Path) -> None:
    """Right in its own formats, and far from the model it was made of."""
    (tmp_path / "ids.txt").write_text("\n".join(str(i * 7 % 97) for i in range(19)))
    shown = {**SMALL, "weights": "w4a16", "kv": "int8", "text": "ids.txt"}
    del shown["prompt"]
    params = [f"kernel.params.{key}={value}" for key, value in shown.items()]
    done = run(tmp_path, "kernel=mini_llm_quality", *params, *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = results(tmp_path)
    assert result["params"]["prompt"] == 9 and result["params"]["text"] == str(tmp_path / "ids.txt")
    found = result["metrics"]
    assert found["max_abs_err"] < 1e-2 < found["logit_max_abs"]
    assert found["kl_divergence"] > 1e-4 and found["perplexity_ratio"] != 1
    assert found["kv_peak_bytes"] == 2 * 9 * 2 * 2 * 2 * (6 + 4)
    assert found["max_context"] > 0
