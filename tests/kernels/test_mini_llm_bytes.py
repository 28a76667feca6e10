"""Bytes and FLOPs that ``mini_llm`` and ``layer_ops`` declare: by hand, and as an estimate of the load has them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from runner.config.errors import ConfigError
from runner.estimate import precision
from runner.estimate.estimate import estimate
from runner.estimate.model import Efficiency, Parallel, Work
from runner.plan.memory import nbytes
from runner.plan.model import Plan
from runner.plan.planner import make_plan
from tests.estimate.machines import gpu
from tests.estimate.models import named
from tests.kernels.plans import H200, HOST, SOURCES, config, plan

SMALL: dict[str, Any] = {
    **{"B": 2, "L": 2, "h": 136, "H": 4, "KVH": 2, "D": 8, "I": 264, "V": 97, "prompt": 5, "steps": 3},
    **{"bias": True, "tied": False, "weights": "fp32", "kv": "fp32"},
}
ROWS, INNER = (4 + 2 * 2) * 8, 4 * 8
MATRICES = 2 * (136 * (ROWS + INNER) + 3 * 136 * 264)
VECTORS = 2 * (2 * 136 + ROWS) + 136
# Rows of 136, 32 and 264 in tiles of 128 and with scales of 128: (rows, tiles) of QKV, out, gate and up, down.
STORED = ((ROWS, 2), (136, 1), (2 * 264, 2), (136, 3))


def report(made: Plan, name: str) -> float:
    return made.variant("graph").report[name]


@pytest.mark.parametrize(
    ("weights", "projections", "head"),
    [
        ("fp32", 4 * MATRICES, 4),
        ("bf16", 2 * MATRICES, 2),
        ("w8a16", 2 * sum(rows * tiles * (128 + 4) for rows, tiles in STORED), 2),
        ("w4a16", 2 * sum(rows * tiles * (64 + 4) for rows, tiles in STORED), 2),
    ],
)
def test_weights_of_a_token(weights: str, projections: int, head: int) -> None:
    made = plan("mini_llm", {**SMALL, "weights": weights}, HOST)
    assert report(made, "weight_bytes") == projections + head * 97 * 136 + 4 * VECTORS
    tied = plan("mini_llm", {**SMALL, "weights": weights, "tied": True, "bias": False}, HOST)
    assert report(tied, "weight_bytes") == report(made, "weight_bytes") - 4 * 2 * ROWS


@pytest.mark.parametrize("weights", ["w8a16", "w4a16"])
def test_what_is_quantised_lies_in_memory_as_it_is_counted(weights: str) -> None:
    made = plan("mini_llm", {**SMALL, "weights": weights, "group": 256}, HOST)
    kinds = ("qkv", "out", "gate_up", "down")
    assert [rows for rows, _ in STORED] == [64, 136, 528, 136]
    filled = {"qkv": 1.0, "out": 144 / 136, "gate_up": 1.0, "down": 144 / 136}  # rows to a multiple of 16
    held = sum(nbytes(made.buffer(f"{kind}_{what}")) / filled[kind] for kind in kinds for what in ("payload", "scale"))
    assert report(made, "weight_bytes") == held + 2 * 97 * 136 + 4 * VECTORS


@pytest.mark.parametrize(("kv", "head"), [("fp32", 4 * 8), ("bf16", 2 * 8), ("int8", 8 + 4), ("fp8", 8)])
@pytest.mark.parametrize("page", [0, 3])
def test_cache_of_a_token(kv: str, head: int, page: int) -> None:
    made = plan("mini_llm", {**SMALL, "kv": kv, "page": page}, HOST)
    each = 2 * 2 * 2 * head  # keys and values, layers, KV heads
    assert report(made, "kv_bytes_per_token") == each
    tokens = 2 * (-(-8 // 3) * 3 if page else 8)  # of whole pages
    held = sum(nbytes(made.buffer(name)) for name in ("keys", "values"))
    scales = sum(nbytes(made.buffer(name)) for name in ("key_scales", "value_scales"))
    assert held + (scales if kv == "int8" else 0) == tokens * each


def test_bytes_of_the_passes() -> None:
    made = plan("mini_llm", {**SMALL, "weights": "bf16", "kv": "bf16"}, HOST)
    weights, kv = report(made, "weight_bytes"), report(made, "kv_bytes_per_token")
    between = 4 * (2 * (2 * 136 + ROWS + INNER + 264) + 136)  # of a token, from kernel to kernel
    step = weights + 2 * (2 * 136 + between + 4 * 97)
    seen = 2 * kv * (6 + 7 + 8)  # two sequences; each step reads the cache up to its own token
    eager, prefill, request = (made.variant(name) for name in ("eager", "prefill", "request"))
    assert eager.bytes_read == 3 * step + seen
    assert report(made, "bytes_per_token") == pytest.approx(step + seen / 3)
    assert eager.bytes_written == 2 * 3 * (between + 4 * 97 + kv)
    assert prefill.bytes_read == weights + 10 * (2 * 136 + between + kv) + 4 * 2 * 97
    assert prefill.bytes_written == 10 * (between + kv) + 4 * 2 * 97
    assert request.bytes_read == prefill.bytes_read + eager.bytes_read
    assert request.flops == prefill.flops + eager.flops
    products = MATRICES + 97 * 136
    assert eager.flops == 2 * 2 * 3 * products + 4 * 2 * 2 * INNER * (6 + 7 + 8)
    assert prefill.flops == 2 * 10 * MATRICES + 2 * 2 * 97 * 136 + 4 * 2 * 2 * INNER * (1 + 2 + 3 + 4 + 5)


def of_model(family: str, model: str, **params: Any) -> Plan:
    made, _ = make_plan(config(family, {"B": 2, "prompt": 100, "steps": 28, **params}, model), H200, [SOURCES])
    return made


@pytest.mark.parametrize("model", ["qwen2_5_0_5b", "llama3_8b", "gpt2_small"])
@pytest.mark.parametrize(
    ("weights", "kv", "theirs"),
    [
        ("fp32", "fp32", ("float32", "float32")),
        ("bf16", "bf16", ("bfloat16", "bfloat16")),
        ("w8a16", "int8", ("w8a16", "int8_g{D}_s32")),
        ("w4a16", "fp8", ("w4a16", "float8")),
    ],
)
def test_an_estimate_of_the_same_load_counts_the_same(
    model: str, weights: str, kv: str, theirs: tuple[str, str]
) -> None:
    made, described = of_model("mini_llm", model, weights=weights, kv=kv), named(model)
    width = 4 if weights == "fp32" else 2
    other = precision.of("float32" if width == 4 else "bfloat16")
    held = precision.of(theirs[1].format(D=made.symbols["D"]))
    work = Work(2, 100, 28, precision.of(theirs[0]), held, other)
    paper = estimate(described, work, Parallel(), gpu("h200_sxm"), Efficiency(), 0, 0.9).metrics
    configured = config("mini_llm", model=model).model
    # An estimate holds whole tables, of which a token reads one row, and norms and biases in two bytes.
    rows = configured.max_positions + (0 if configured.tied_embeddings else configured.vocab)
    unread = width * rows * configured.hidden
    wider = (4 - width) * int(made.symbols["vectors"])
    assert report(made, "weight_bytes") == paper["weight_bytes"] - unread + wider
    assert report(made, "kv_bytes_per_token") == paper["kv_bytes_per_token"]
    assert made.variant("prefill").flops == paper["flops_prefill"]
    assert made.variant("eager").flops == 28 * paper["flops_decode_step"]


@pytest.mark.parametrize(("model", "layers"), [("llama3_8b", 32), ("gpt2_small", 12)])
@pytest.mark.parametrize("weights", ["fp32", "bf16", "w8a16", "w4a16"])
def test_operators_read_the_weights_of_the_whole(weights: str, model: str, layers: int) -> None:
    """Of all layers, with what surrounds them; norms are too small to be counted by those that apply them."""
    whole = of_model("mini_llm", model, weights=weights)
    parts = of_model("layer_ops", model, weights=weights, steps=1, L=1)
    symbols = parts.symbols
    layer = sum(int(symbols[f"{name}_bytes"]) for name in ("qkv", "out", "gate_up", "down"))
    read = int(symbols["layers"]) * layer + int(symbols["head_weight_bytes"])
    norms = (2 * layers + 1) * int(symbols["norm_rows"]) * int(symbols["h"])
    assert read == report(whole, "weight_bytes") - 4 * norms
    assert int(symbols["layers"]) == layers and symbols["L"] == 1
    products = sum(
        variant.flops * variant.report["calls"]
        for variant in parts.variants
        if variant.name.startswith("prefill_") or variant.name == "decode_logits"
    )
    assert products == whole.variant("prefill").flops


def test_a_decode_step_sees_the_context_that_is_asked_for() -> None:
    behind, further = (plan_of(context) for context in (0, 64))
    assert (behind.symbols["T"], behind.symbols["decode_at"]) == (6, 5)
    assert (further.symbols["T"], further.symbols["decode_at"]) == (64, 63)
    token = 2 * 2 * 2 * 32
    read = [made.variant("decode_attention").bytes_read for made in (behind, further)]
    assert read[1] - read[0] == token * (63 - 5)
    with pytest.raises(ConfigError, match="context must be above prompt"):
        plan_of(5)


def plan_of(context: int) -> Plan:
    params = {**SMALL, "context": context, "L": 1, "weights": "bf16", "B": 2}
    del params["steps"]
    made, _ = make_plan(config("layer_ops", params), HOST, [SOURCES])
    return made


@pytest.mark.parametrize("model", ["qwen2_5_0_5b", "qwen2_5_7b", "qwen2_5_72b", "llama2_7b", "llama2_70b", "llama3_8b"])
def test_what_attention_shares_of_a_models_heads_fits_a_block(model: str) -> None:
    made, _ = make_plan(config("mini_llm", model=model), H200, [SOURCES])
    heads, dim, splits = (int(made.defines[name]) for name in ("GROUP_HEADS", "HEAD_DIM", "MOST_SPLITS"))
    assert heads == min(8, int(made.symbols["H"]) // int(made.symbols["KVH"]))
    assert 4 * heads * (8 * dim + 16 + splits) <= 48 * 1024
    assert int(made.symbols["splits"]) <= splits


def test_a_pass_of_too_many_tokens_is_refused() -> None:
    with pytest.raises(ConfigError, match="a pass takes up to 65535 tokens"):
        plan("mini_llm", {"B": 64, "prompt": 4096})


def test_the_arithmetic_type_follows_from_the_way_that_is_taken() -> None:
    few, many = (plan("mini_llm", {"B": batch, "prompt": 16}) for batch in (1, 17))
    assert {one.name: one.compute for one in few.variants} == dict.fromkeys(
        ("prefill", "eager", "graph", "request"), "float32"
    )
    assert {one.compute for one in many.variants} == {"bfloat16"}


def test_learned_positions_limit_the_context() -> None:
    target = dataclasses.replace(H200, memory_bytes=10**11)
    made, _ = make_plan(config("mini_llm", model="gpt2_small"), target, [SOURCES])
    assert report(made, "max_context") == 1024 < int(made.symbols["fitting"])
    assert int(made.symbols["row_bytes"]) == 2 * 2 * 768, "a row of each table"
