"""Reference of ``mini_llm``: the decoder in float64 on the weights, and with the cache, as the device holds them.

What a decoder generates follows from its own choices, so each choice is judged after the tokens that the device chose
before: one pass over the prompt and those tokens says for every one of them whether it is the right one. By induction
that is the greedy text. Weights are read once a pass; a billion of them take some seconds on many cores, and 20 s on
one.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from runner.check import generator
from runner.references import rotary
from runner.references.arrays import through_groups, through_int
from runner.references.pages import shuffled
from runner.weights import stacked
from runner.weights.token_ids import token_ids

if TYPE_CHECKING:
    from runner.check.case import Case
    from runner.plan.model import Check

Values = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]

BLOCK, AHEAD = 1 << 21, 64
"""Elements of a matrix that are made at a time, and how many such blocks at most wait for their product."""
SCORES = 1 << 25
"""Scores of attention that are held at a time."""
CACHED = {"bf16": "bfloat16", "fp8": "float8_e4m3"}
"""Formats of the cache that round each element by itself."""
LEVELS = {"w8a16": 127.0, "w4a16": 7.0}
"""Largest quantised magnitude by format of the weights."""


@dataclass(frozen=True)
class Judged:
    """A text that the device wrote, and what is right in it."""

    tokens: Ids
    """(B, N): each the device's own where it may be chosen there, else the one that should have been."""
    logits: Values
    """(B, N, V): what each was chosen by."""
    text: Ids
    """(B, N): what the device chose, which each choice was judged after."""


_RUNS: WeakKeyDictionary[Case, dict[bytes, Judged]] = WeakKeyDictionary()
"""By the tokens judged: variants that chose the same share a pass."""


def inputs(case: Case, name: str) -> npt.NDArray[Any]:
    """Weights from a file, given tokens (``prompt_ids`` (B, prompt), one sequence's behind the other's), and tables of
    the engine.

    ``rotation`` (T, D / 2, 2): cosine and sine of each position's angles (``rotary``), float32; none turns where
    positions are learned. ``table`` (B, pages of a sequence): pages in the order of a pool that has been in use.
    ``each`` (B,): 0 … B - 1. Of the prompt's tokens, one sequence after the other, ``prompt_slot`` and
    ``prompt_position`` (B · prompt,), ``prompt_last`` (B,): the last of each, and ``prompt_runs`` (B · runs, 2): first
    token and number of tokens of each run that attends together.
    """
    batch, prompt = case["B"], case["prompt"]
    if name == "prompt_ids":
        given = token_ids(case["text"], case["file"], case["V"])
        return given[: batch * prompt].reshape(batch, prompt)
    if name == "rotation":
        turns = np.zeros(case["D"] // 2) if case["gpt2"] else rotary.scaled(case)
        angles = np.arange(case["T"])[:, None] * turns
        return np.stack([np.cos(angles), np.sin(angles)], axis=2).astype(np.float32)
    if name == "table":
        return shuffled(case, name, batch * case["slot_pages"]).reshape(batch, -1)
    if name == "each":
        return np.arange(batch)
    if name == "prompt_slot":
        return np.asarray(np.repeat(np.arange(batch), prompt))
    if name == "prompt_position":
        return np.tile(np.arange(prompt), batch)
    if name == "prompt_last":
        return np.arange(prompt - 1, batch * prompt, prompt)
    if name == "prompt_runs":
        starts = np.arange(0, prompt, case["run_tokens"])
        counts = np.minimum(prompt - starts, case["run_tokens"])
        firsts = np.arange(batch)[:, None] * prompt + starts
        return np.stack([firsts, np.broadcast_to(counts, firsts.shape)], axis=2).reshape(-1, 2)
    return stacked.buffer(case["file"], name, case.dims(name))


def expected(case: Case, check: Check, rows: npt.NDArray[np.int64]) -> Values | Ids:
    """Rows of ``tokens``, one token each, or of ``logits`` (rows, V), those of the last token.

    A check whose name begins with ``prefill`` is of the first token alone.
    """
    left = case.output("tokens").astype(np.int64)
    run = judged(case, left[:, :1] if check.name.startswith("prefill") else left)
    if check.output == "logits":
        last: Values = run.logits[rows, -1]
        return last
    wanted = left.copy()
    wanted[:, : run.tokens.shape[1]] = run.tokens
    return wanted.reshape(-1)[rows]


def judged(case: Case, chosen: Ids) -> Judged:
    """The right tokens and their logits where each sequence goes on as ``chosen`` (B, N) says."""
    runs = _RUNS.setdefault(case, {})
    key, count = chosen.tobytes(), chosen.shape[1]
    for run in runs.values():
        if run.text.shape[1] > count and np.array_equal(run.text[:, :count], chosen):  # the beginning of that text
            return Judged(run.tokens[:, :count], run.logits[:, :count], chosen)
    if key not in runs:
        # What is no token is wrong, whatever follows.
        known = np.clip(chosen, 0, case["V"] - 1)
        text = np.concatenate([case.input("prompt_ids"), known[:, :-1]], axis=1)
        logits = forward(case, text, count)
        right = np.stack([allowed(case, logits[:, i], chosen, i) for i in range(count)], axis=1)
        runs[key] = Judged(right, logits, chosen)
    return runs[key]


def allowed(case: Case, logits: Values, chosen: Ids, at: int) -> Ids:
    """(B,): of each sequence the token ``at`` that was chosen where ``logits`` (B, V) allow it, else the right one."""
    if case["top_k"] == 0:
        best = np.argmax(logits, axis=1)
        known = np.clip(chosen[:, at], 0, case["V"] - 1)
        rows = np.arange(len(best))
        close = (chosen[:, at] == known) & (logits[rows, best] - logits[rows, known] <= case["tie"])
        return np.where(close, known, best)
    return np.array([drawn(case, row, b, chosen[b, at], case["prompt"] + at - 1) for b, row in enumerate(logits)])


def drawn(case: Case, logits: Values, sequence: int, chosen: int, position: int) -> int:
    """The token that a draw takes: ``chosen`` where rounding may decide for it, else the right one.

    The ``top_k`` largest logits, ties to the lowest index, at ``temperature``; of those the fewest that reach
    ``top_p`` of their mass. The number drawn is the generator's for (seed, "sampler"), sequence + position.
    """
    order = np.lexsort((np.arange(len(logits)), -logits))[: min(case["top_k"], len(logits))]
    weights = np.exp((logits[order] - logits[order[0]]) / case["temperature"])
    ends = np.cumsum(weights)
    slack = 4 * case["tie"] / case["temperature"] * ends[-1]
    kept = ends[np.searchsorted(ends, case["top_p"] * ends[-1])] if case["top_p"] < 1 else ends[-1]
    key = (generator.key(case.seed, "sampler") + sequence) % (1 << 64)
    aim = float(generator.uniform(key, position, 1, 0.0, 1.0)[0]) * kept
    place = np.flatnonzero(order == chosen)
    if len(place):
        end = float(ends[place[0]])
        if end - float(weights[place[0]]) - slack <= aim <= end + slack:
            return int(chosen)
    return int(order[min(int(np.searchsorted(ends, aim, side="right")), len(order) - 1)])


def forward(case: Case, ids: Ids, last: int) -> Values:
    """Logits (B, last, V) after the ``last`` last tokens of ``ids`` (B, N), whose first stands at position 0."""
    return logits_of(case, states(case, ids)[:, -last:])


def states(case: Case, ids: Ids) -> Values:
    """What the last layer leaves of each of ``ids`` (B, N): (B, N, h)."""
    x = np.stack([[wide(case, "embedding", int(token)) for token in row] for row in ids])
    if case["gpt2"]:
        x = x + np.stack([wide(case, "position_embedding", at) for at in range(ids.shape[1])])
    for layer in range(case["L"]):
        normed = normalised(case, x, wide(case, "attention_norm", layer))
        x = x + shifted(case, projected(case, attention(case, layer, normed), "out_weight", layer), "out_bias", layer)
        normed = normalised(case, x, wide(case, "mlp_norm", layer))
        widened = shifted(case, projected(case, normed, "gate_up_weight", layer), "up_bias", layer)
        x = x + shifted(case, projected(case, activated(case, widened), "down_weight", layer), "down_bias", layer)
    return x


def activated(case: Case, x: Values) -> Values:
    """Within the feed-forward part: silu(gate) · up of ``x`` (…, 2 I), gate before up; GELU by the hyperbolic tangent
    of ``x`` (…, I) in GPT-2's layout."""
    if case["gpt2"]:
        return np.asarray(0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3))))
    gate, up = np.split(x, 2, axis=-1)
    return np.asarray(gate / (1.0 + np.exp(-gate)) * up)


def shifted(case: Case, x: Values, bias: str, layer: int) -> Values:
    """``x`` with a bias that GPT-2's layout has."""
    return x + wide(case, bias, layer) if case["gpt2"] else x


def logits_of(case: Case, x: Values) -> Values:
    """Logits (…, V) of what the last layer left (…, h)."""
    normed = normalised(case, x, wide(case, "last_norm", 0))
    return projected(case, normed, "embedding" if case["is_tied"] else "lm_head")


def attention(case: Case, layer: int, x: Values) -> Values:
    """(B, N, H · D) of tokens ``x`` (B, N, h), each over the cache up to itself."""
    batch, count = x.shape[:2]
    heads, kv_heads, dim = case["H"], case["KVH"], case["D"]
    qkv = projected(case, x, "qkv_weight", layer)
    if case["has_bias"]:
        qkv = qkv + wide(case, "qkv_bias", layer)
    # (B, heads, N, D)
    split = qkv.reshape(batch, count, heads + 2 * kv_heads, dim).transpose(0, 2, 1, 3)
    turn = wide(case, "rotation")[:count]
    keys = cached(case, rotated(split[:, heads : heads + kv_heads], turn))
    values = cached(case, split[:, heads + kv_heads :])
    queries = rotated(split[:, :heads], turn).reshape(batch, kv_heads, heads // kv_heads, count, dim)
    mixed = np.empty_like(queries)
    each = max(1, SCORES // (batch * heads * count))
    for first in range(0, count, each):
        end = min(first + each, count)
        scores = np.einsum("bkgnd,bktd->bkgnt", queries[..., first:end, :], keys[:, :, :end], optimize=True)
        scores /= np.sqrt(dim)
        scores[..., np.arange(end) > np.arange(first, end)[:, None]] = -np.inf
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        mixed[..., first:end, :] = np.einsum("bkgnt,bktd->bkgnd", weights, values[:, :, :end], optimize=True)
    out: Values = mixed.reshape(batch, heads, count, dim).transpose(0, 2, 1, 3).reshape(batch, count, heads * dim)
    return out


def cached(case: Case, values: Values) -> Values:
    """Keys or values (…, D) through what the cache holds them in."""
    kind, single = case["kv"], values.astype(np.float32)
    if kind == "int8":
        return through_int(single, 127.0)
    if kind in CACHED:
        return generator.narrow(single, CACHED[kind]).astype(np.float64)
    return values


def projected(case: Case, x: Values, name: str, *layer: int) -> Values:
    """``x`` (…, depth) times the rows of a matrix, as the device computes with it: (…, rows)."""
    rows, depth = case.dims(name)[-2:]
    each = max(1, BLOCK // depth)
    out = np.empty((*x.shape[:-1], rows))

    def held(first: int) -> Values:
        block = case.rows(name, first, min(each, rows - first), *layer)
        levels = LEVELS.get(case["weights"]) if layer else None  # embedding and output projection are never quantised
        return block.astype(np.float64) if levels is None else through_groups(block, levels, case["group"])

    firsts = range(0, rows, each)
    if len(firsts) == 1:
        return np.matmul(x, held(0).T, out=out)
    # Blocks are made by all cores, some ahead of the product that needs them.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, len(firsts), AHEAD):
            ahead = firsts[start : start + AHEAD]
            for first, block in zip(ahead, pool.map(held, ahead), strict=True):
                out[..., first : first + len(block)] = x @ block.T
    return out


def rotated(x: Values, turn: Values) -> Values:
    """RoPE of ``x`` (…, N, D): element i with i + D / 2, by ``turn`` (N, D / 2, 2)."""
    low, high = np.split(x, 2, axis=-1)
    cosine, sine = turn[..., 0], turn[..., 1]
    return np.concatenate([low * cosine - high * sine, high * cosine + low * sine], axis=-1)


def normalised(case: Case, x: Values, factors: Values) -> Values:
    """Along the last axis RMSNorm, or LayerNorm in GPT-2's layout, whose shifts follow the factors."""
    if case["gpt2"]:
        gamma, beta = np.split(factors, 2)
        deviation = x - x.mean(axis=-1, keepdims=True)
        return np.asarray(deviation / np.sqrt((deviation**2).mean(axis=-1, keepdims=True) + case["eps"]) * gamma + beta)
    out: Values = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + case["eps"]) * factors
    return out


def wide(case: Case, name: str, *leading: int) -> Values:
    """An input in float64."""
    return case.input(name, *leading).astype(np.float64)
