"""The matrix products of a model's layer. A timeline knows the grid and block of a kernel, not its M, N and K: these
follow from the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runner.report.markdown import escape, table
from runner.result.model import KernelUse, Result


def gemms(result: Result) -> list[str]:
    """The products of a dense layer of the model that was named for a program, beside the matmul kernels that were
    traced; empty for the families, whose sizes say it, and where no model was named."""
    named = any(line.lstrip("+").startswith(("model=", "model.")) for line in result.overrides)
    model = result.config.get("model") or {}
    if result.config.get("kernel", {}).get("name") != "command" or not named or model.get("kv_lora_rank"):
        return []
    batch = int((result.config.get("shape") or {}).get("batch", 1))
    rows = [[name, f"{m}", f"{n}", f"{k}"] for name, m, n, k in shapes(model, batch)]
    parts = [
        f"Of a decode step of {escape(result.model)} at batch {batch}, by its configuration; a prefill has M times its "
        "number of tokens.",
        table(["GEMM", "M", "N", "K"], rows),
    ]
    traced = [use for use in result.profile.kernels if use.category == "matmul"]
    if traced:
        parts += ["Traced:", table(["kernel", "grid", "block", "calls"], [_traced(use) for use in traced], left=3)]
    return parts


def shapes(model: Mapping[str, Any], rows: int) -> list[tuple[str, int, int, int]]:
    """Name, M, N, K. The fused QKV projection has (heads + 2 × KV heads) × head size columns."""
    hidden, head = model["hidden"], model["head_dim"]
    wide = model["heads"] * head
    found = [
        ("QKV projection", rows, wide + 2 * model["kv_heads"] * head, hidden),
        ("attention output", rows, hidden, wide),
    ]
    if not model.get("experts"):
        gate = "gate and up, each" if model.get("gated_mlp", True) else "up"
        found += [
            (f"MLP {gate}", rows, model["intermediate"], hidden),
            ("MLP down", rows, hidden, model["intermediate"]),
        ]
    return [*found, ("LM head", rows, model["vocab"], hidden)]


def _traced(use: KernelUse) -> list[str]:
    return [use.name, use.grid or "–", use.block or "–", f"{use.calls}"]
