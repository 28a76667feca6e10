"""Reference of ``mini_llm``: the decoder in float64 on the weights as the device holds them, choosing greedily.

Every generated token reads all weights once more: some 20 s for a billion of them, on one core.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from runner.check.case import Case
    from runner.plan.model import Check

Values = npt.NDArray[np.float64]

EPSILON = 1e-5


@dataclass(frozen=True)
class Generated:
    """What a run leaves."""

    tokens: npt.NDArray[np.int64]
    """(B, steps + 1): the one after the prompt first."""
    logits: Values
    """(B, V): those the last token was chosen by."""
    keys: Values
    """(L, B, KVH, T, D), rotated."""
    values: Values
    """Like ``keys``."""


_RUNS: WeakKeyDictionary[Case, dict[str, Generated]] = WeakKeyDictionary()
"""The checks of a precision share one run."""


def inputs(case: Case, name: str) -> npt.NDArray[Any]:
    """``rotation``, (T, D / 2, 2): cosine and sine of position · theta ** (-2 i / D), in float32."""
    angles = np.arange(case["T"])[:, None] * case["theta"] ** (-np.arange(0, case["D"], 2) / case["D"])
    return np.stack([np.cos(angles), np.sin(angles)], axis=2).astype(np.float32)


def expected(case: Case, check: Check, rows: npt.NDArray[np.int64]) -> Values | npt.NDArray[np.int64]:
    """Rows of what the check's name ends in: tokens (rows, steps + 1), logits (rows, V), keys or values (rows, D)."""
    precision, _, what = check.name.partition("_")
    runs = _RUNS.setdefault(case, {})
    if precision not in runs:
        runs[precision] = generate(case, "_bf16" if precision == "bf16" else "")
    run = runs[precision]
    if what.endswith("_tokens"):
        return run.tokens[rows]
    if what.endswith("_logits"):
        return run.logits[rows]
    return (run.keys if what.endswith("_keys") else run.values).reshape(-1, case["D"])[rows]


def generate(case: Case, suffix: str) -> Generated:
    """The prompt at once, then token by token; ``suffix`` names the precision of the weights."""
    cache = (case["L"], case["B"], case["KVH"], case["T"], case["D"])
    keys, values = np.zeros(cache), np.zeros(cache)
    ids, at, tokens = case.input("prompt_ids"), 0, []
    for _ in range(case["steps"] + 1):
        logits = forward(case, suffix, ids, at, keys, values)
        tokens.append(np.argmax(logits, axis=1))
        at += ids.shape[1]
        ids = tokens[-1][:, None]
    return Generated(np.stack(tokens, axis=1), logits, keys, values)


def forward(case: Case, suffix: str, ids: npt.NDArray[np.int64], start: int, keys: Values, values: Values) -> Values:
    """Logits (B, V) after tokens ``ids`` (B, N) at positions ``start`` on; adds their rows to the cache."""
    x = np.stack([[wide(case, f"embedding{suffix}", int(token)) for token in row] for row in ids])
    for layer in range(case["L"]):
        normed = normalised(x, wide(case, "attention_norm", layer))
        attended = attention(case, suffix, layer, normed, start, keys[layer], values[layer])
        x = x + attended @ wide(case, f"out_weight{suffix}", layer).T
        gate_up = normalised(x, wide(case, "mlp_norm", layer)) @ wide(case, f"gate_up_weight{suffix}", layer).T
        gate, up = np.split(gate_up, 2, axis=2)
        x = x + (gate / (1.0 + np.exp(-gate)) * up) @ wide(case, f"down_weight{suffix}", layer).T
    last = normalised(x[:, -1], wide(case, "last_norm", 0))
    logits: Values = last @ wide(case, f"embedding{suffix}" if case["is_tied"] else f"lm_head{suffix}").T
    return logits


def attention(case: Case, suffix: str, layer: int, x: Values, start: int, keys: Values, values: Values) -> Values:
    """(B, N, H · D) of tokens ``x`` (B, N, h), each over the cache up to itself; ``keys``, ``values``: a layer's."""
    batch, count = x.shape[:2]
    heads, kv_heads, dim = case["H"], case["KVH"], case["D"]
    qkv = x @ wide(case, f"qkv_weight{suffix}", layer).T
    if case["has_bias"]:
        qkv = qkv + wide(case, "qkv_bias", layer)
    # (B, heads, N, D)
    split = qkv.reshape(batch, count, heads + 2 * kv_heads, dim).transpose(0, 2, 1, 3)
    turn = wide(case, "rotation")[start : start + count]
    end = start + count
    keys[:, :, start:end] = rotated(split[:, heads : heads + kv_heads], turn)
    values[:, :, start:end] = split[:, heads + kv_heads :]
    queries = rotated(split[:, :heads], turn).reshape(batch, kv_heads, heads // kv_heads, count, dim)
    scores = np.einsum("bkgnd,bktd->bkgnt", queries, keys[:, :, :end]) / np.sqrt(dim)
    scores[..., np.arange(end)[None, :] > np.arange(start, end)[:, None]] = -np.inf
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    mixed = np.einsum("bkgnt,bktd->bkgnd", weights, values[:, :, :end])
    out: Values = mixed.reshape(batch, heads, count, dim).transpose(0, 2, 1, 3).reshape(batch, count, heads * dim)
    return out


def rotated(x: Values, turn: Values) -> Values:
    """RoPE of ``x`` (…, N, D): element i with i + D / 2, by ``turn`` (N, D / 2, 2)."""
    low, high = np.split(x, 2, axis=-1)
    cosine, sine = turn[..., 0], turn[..., 1]
    return np.concatenate([low * cosine - high * sine, high * cosine + low * sine], axis=-1)


def normalised(x: Values, gamma: Values) -> Values:
    """RMSNorm along the last axis."""
    out: Values = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + EPSILON) * gamma
    return out


def wide(case: Case, name: str, *leading: int) -> Values:
    """An input in float64."""
    return case.input(name, *leading).astype(np.float64)
