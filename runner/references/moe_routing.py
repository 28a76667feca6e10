"""Reference of ``moe_routing``: which experts each token goes to, who gets a slot, and the layer token by token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from runner.check.generator import key

if TYPE_CHECKING:
    from runner.check.case import Case
    from runner.plan.model import Check


@dataclass(frozen=True)
class Routing:
    """Choices are numbered token by token, ``t * K + k``; first come, first served."""

    experts: npt.NDArray[np.int64]
    """Expert of each choice, shape (T, K); the experts of one token differ."""
    ranks: npt.NDArray[np.int64]
    """Choices of the same expert before this one, shape (T, K)."""
    counts: npt.NDArray[np.int64]
    """Choices of each expert, shape (E,)."""


def route(case: Case) -> Routing:
    """Draws ``K`` different experts a token: expert e with weight 1 / (e + 1)^skew, 1 for uniform routing.

    A Gumbel variable added to each log weight, the ``K`` largest taken: sampling without replacement.
    """
    tokens, experts, top_k = case["T"], case["E"], case["K"]
    skew = case["skew"] if case["routing"] == "zipf" else 0.0
    random = np.random.default_rng(key(case.seed, "moe_routing"))
    scores = random.gumbel(size=(tokens, experts)) - skew * np.log(1.0 + np.arange(experts))
    chosen = np.argsort(-scores, axis=1, kind="stable")[:, :top_k].astype(np.int64)
    flat = chosen.reshape(-1)
    counts = np.bincount(flat, minlength=experts).astype(np.int64)
    order = np.argsort(flat, kind="stable")
    ranks = np.empty_like(flat)
    ranks[order] = np.arange(flat.size) - np.repeat(np.cumsum(counts) - counts, counts)
    return Routing(chosen, ranks.reshape(chosen.shape), counts)


def inputs(case: Case, name: str) -> npt.NDArray[Any]:
    """The tables of the router.

    ``gate`` (T, K), float32, sums to 1 over k. ``slot_token`` (E * capacity,): token in each padded slot, -1 for
    an empty one; ``token_slot`` (T, K): its slot, -1 where it was dropped. ``row_token``, ``row_expert`` (T * K,):
    the compact rows, sorted by expert; ``compact_pos`` (T, K): the row of each choice.
    """
    if name == "gate":
        random = np.random.default_rng(key(case.seed, "gate"))
        raw: npt.NDArray[np.float64] = random.uniform(0.1, 1.0, (case["T"], case["K"]))
        gate: npt.NDArray[np.float32] = (raw / raw.sum(axis=1, keepdims=True)).astype(np.float32)
        return gate
    made = route(case)
    tokens = np.repeat(np.arange(case["T"]), case["K"])
    if name in ("slot_token", "token_slot"):
        capacity = case["capacity"]
        slots = np.where(made.ranks < capacity, made.experts * capacity + made.ranks, -1)
        if name == "token_slot":
            return slots
        held = np.full(case["E"] * capacity, -1, np.int64)
        held[slots[slots >= 0]] = tokens[slots.reshape(-1) >= 0]
        return held
    offsets = np.cumsum(made.counts) - made.counts
    position = offsets[made.experts] + made.ranks
    if name == "compact_pos":
        return position
    rows = np.empty(tokens.size, np.int64)
    rows[position.reshape(-1)] = tokens if name == "row_token" else made.experts.reshape(-1)
    return rows


def expected(case: Case, check: Check, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Tokens ``rows`` of the output, shape (rows, H): the gated sum over experts, without the dropped where padded."""
    made = route(case)
    gate = case.input("gate").astype(np.float64)
    scale, bias = case.input("scale").astype(np.float64), case.input("bias").astype(np.float64)
    kept = made.ranks < case["capacity"] if check.name == "padded_moe" else np.ones_like(made.ranks, dtype=bool)
    out = np.empty((len(rows), case["H"]))
    for index, token in enumerate(rows):
        x = case.input("x", token).astype(np.float64)
        weight = gate[token] * kept[token]
        experts = made.experts[token]
        out[index] = x * (weight @ scale[experts]) + weight @ bias[experts]
    return out
