"""This repository's own decoder in the words of an estimate: which models it runs, and how it calls precisions."""

from __future__ import annotations

import re
from collections.abc import Mapping

from runner.config.errors import ConfigError
from runner.config.schema import Model
from runner.estimate.model import Precision

LETTERS = {
    "L": "layers",
    "h": "hidden",
    "H": "heads",
    "KVH": "kv_heads",
    "D": "head_dim",
    "I": "intermediate",
    "V": "vocab",
}
"""Its parameter → key of ``model``."""
PLAINLY = {"page": "0", "top_k": "0", "gemv": "auto"}
"""How it runs where an estimate is compared with it: a cache in one piece, the largest logit taken, weights read as it
suits them."""
_KINDS = (
    "MHA or GQA with rotary positions, a gated feed-forward part and no biases but those of Q, K and V; or, as GPT-2, "
    "with learned positions, biases everywhere and no gate"
)
_ONLY: dict[str, int | bool] = {
    "experts": 0,
    "kv_lora_rank": 0,
    "sliding_window": 0,
    "qk_norm": False,
    "attention_sinks": False,
}
"""Key of ``model`` → the only value that it runs,"""
_ROTARY: dict[str, int | bool] = {"gated_mlp": True, "biases": False, "out_bias": False, "mlp_bias": False}
_LEARNED: dict[str, int | bool] = {"gated_mlp": False, "biases": True}
"""and besides, where positions are rotary, and where ``model.max_positions`` are learned."""
_POSITIONS = ("", "linear", "llama3")
"""Values of ``model.rope_scaling`` that it runs."""
_GROUPED = re.compile(r"int([48])_g(\d+)_s32")
GROUPS = 128
"""Weights of a scale: a multiple of it."""
_FLOATS = {"float32": "fp32", "bfloat16": "bf16"}
WEIGHTS = (
    "float32 (its fp32), bfloat16 (bf16), int8_g<group>_s32 (w8a16), int4_g<group>_s32 (w4a16), "
    f"a group being a multiple of {GROUPS}"
)
KV = "float32 (its fp32), bfloat16 (bf16), int8 or int8_g<head_dim>_s32 (int8), float8 (fp8)"


def otherwise(params: Mapping[str, object]) -> str:
    """The parameter of a run, with its value, that is not as ``PLAINLY`` says; empty where all are."""
    given = ((key, str(params.get(key, value)), value) for key, value in PLAINLY.items())
    return next((f"{key}={found}" for key, found, value in given if found != value), "")


def check_model(model: Model, because: str) -> None:
    """Raises ``ConfigError`` naming the first figure that the decoder does not run. ``because``: what needs it."""
    only = {**_ONLY, **(_LEARNED if model.max_positions else _ROTARY)}
    wrong = [(key, str(value).lower()) for key, value in only.items() if getattr(model, key) != value]
    if model.rope_scaling not in _POSITIONS:
        wrong.append(("rope_scaling", " or ".join(value or "empty" for value in _POSITIONS)))
    for key, allowed in wrong:
        raise ConfigError(
            f"model.{key}={getattr(model, key)}: must be {allowed} with {because}, which serves what kernel=mini_llm "
            f"runs: {_KINDS}"
        )


def weights_word(weights: Precision) -> tuple[str, int]:
    """``("w8a16", 128)`` of ``int8_g128_s32``: its word, and the weights that share a scale (0 = there is none).

    Raises ``ConfigError`` for a precision that it does not have.
    """
    if weights.name in _FLOATS:
        return _FLOATS[weights.name], 0
    grouped = _GROUPED.fullmatch(weights.name)
    if grouped is None or int(grouped[2]) == 0 or int(grouped[2]) % GROUPS:
        raise ConfigError(f"{weights.name} is none of those that kernel=mini_llm has: {WEIGHTS}")
    return f"w{grouped[1]}a16", int(grouped[2])


def kv_word(kv: Precision) -> str:
    """``fp8`` of ``float8``. Raises ``ConfigError`` for a precision that it does not have."""
    if kv.name in _FLOATS:
        return _FLOATS[kv.name]
    if kv.name == "float8":
        return "fp8"
    if kv.name == "int8" or re.fullmatch(r"int8_g\d+_s32", kv.name):
        return "int8"
    raise ConfigError(f"{kv.name} is none of those that kernel=mini_llm has: {KV}")
