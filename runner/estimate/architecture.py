"""The ``model`` section → an ``Architecture`` with one entry per layer: no later step asks which layer is what."""

from __future__ import annotations

from runner.config.schema import Model
from runner.estimate.config_file import NUMBER_LIMIT
from runner.estimate.model import Architecture, Attention, Layer, Mlp
from runner.plan.errors import PlanError

_AT_LEAST_ONE = ("layers", "hidden", "heads", "kv_heads", "head_dim", "intermediate", "vocab")
_AT_LEAST_ZERO = (
    "experts",
    "top_k",
    "shared_experts",
    "moe_intermediate",
    "dense_layers",
    "q_lora_rank",
    "kv_lora_rank",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "v_head_dim",
    "max_positions",
    "sliding_window",
)
LAYERS_LIMIT = 1024
"""A model has at most this many layers here; each takes an object, and an estimate goes through them many times."""


def of(model: Model) -> Architecture:
    """The decoder that ``model`` describes. ``PlanError`` names the first figure that cannot be."""
    _check(model)
    windowed = _windowed(model)
    routed_from = model.dense_layers if model.experts else model.layers
    plain, window = _attention(model, 0), _attention(model, model.sliding_window)
    dense, mixture = _dense(model), _mixture(model)
    layers = tuple(
        Layer(window if number in windowed else plain, mixture if number >= routed_from else dense)
        for number in range(model.layers)
    )
    return Architecture(
        name=model.name,
        hidden=model.hidden,
        vocab=model.vocab,
        layers=layers,
        tied=model.tied_embeddings,
        positions=model.max_positions,
        norm_bias=model.biases,
        source=model.source,
        notes=tuple(model.notes),
    )


def _attention(model: Model, window: int) -> Attention:
    if model.kv_lora_rank:
        return Attention(
            heads=model.heads,
            kv_heads=model.kv_heads,
            head_dim=model.qk_nope_head_dim + model.qk_rope_head_dim,
            v_head_dim=model.v_head_dim,
            q_lora_rank=model.q_lora_rank,
            kv_lora_rank=model.kv_lora_rank,
            rope_dim=model.qk_rope_head_dim,
            window=window,
        )
    return Attention(
        heads=model.heads,
        kv_heads=model.kv_heads,
        head_dim=model.head_dim,
        v_head_dim=model.head_dim,
        qkv_bias=model.qkv_bias or model.biases,
        out_bias=model.out_bias or model.biases,
        qk_norm=model.qk_norm,
        sinks=model.attention_sinks,
        window=window,
    )


def _dense(model: Model) -> Mlp:
    return Mlp(width=model.intermediate, gated=model.gated_mlp, bias=model.mlp_bias or model.biases)


def _mixture(model: Model) -> Mlp:
    return Mlp(
        width=model.moe_intermediate,
        gated=model.gated_mlp,
        bias=model.mlp_bias or model.biases,
        experts=model.experts,
        top_k=model.top_k,
        shared=model.shared_experts,
        shared_gate=model.shared_gate,
        router_bias=model.router_bias,
    )


def _windowed(model: Model) -> frozenset[int]:
    """Numbers of the layers that see ``sliding_window`` tokens."""
    if not model.sliding_window:
        return frozenset()
    return frozenset(model.window_layers) if model.window_layers else frozenset(range(model.layers))


def _check(model: Model) -> None:
    for key in _AT_LEAST_ONE:
        if getattr(model, key) < 1:
            raise _wrong(model, key, "1 or more")
    for key in _AT_LEAST_ZERO:
        if getattr(model, key) < 0:
            raise _wrong(model, key, "0 or more")
    for key in (*_AT_LEAST_ONE, *_AT_LEAST_ZERO):
        if getattr(model, key) > NUMBER_LIMIT:
            raise _wrong(model, key, f"at most {NUMBER_LIMIT}")
    if model.layers > LAYERS_LIMIT:
        raise _wrong(model, "layers", f"at most {LAYERS_LIMIT}")
    if model.heads % model.kv_heads:
        raise _wrong(model, "kv_heads", f"a divisor of model.heads={model.heads}: each KV head serves as many queries")
    _check_mixture(model)
    _check_latent(model)
    if model.window_layers and not model.sliding_window:
        raise _wrong(model, "window_layers", "none, as model.sliding_window is 0")
    for number in model.window_layers:
        if not 0 <= number < model.layers:
            raise PlanError("model.window_layers", number, f"layer numbers from 0 to {model.layers - 1}")


def _check_mixture(model: Model) -> None:
    if not model.experts:
        for key in ("top_k", "shared_experts", "moe_intermediate", "dense_layers"):
            if getattr(model, key):
                raise _wrong(model, key, "0, as model.experts is 0")
        if model.router_bias or model.shared_gate:
            raise _wrong(model, "router_bias" if model.router_bias else "shared_gate", "false, as model.experts is 0")
        return
    if not 1 <= model.top_k <= model.experts:
        raise _wrong(model, "top_k", f"1 to model.experts={model.experts}")
    if not model.moe_intermediate:
        raise _wrong(model, "moe_intermediate", "1 or more, as model.experts is set")
    if model.dense_layers > model.layers:
        raise _wrong(model, "dense_layers", f"at most model.layers={model.layers}")
    if model.shared_gate and not model.shared_experts:
        raise _wrong(model, "shared_gate", "false, as model.shared_experts is 0")


def _check_latent(model: Model) -> None:
    if not model.kv_lora_rank:
        for key in ("q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"):
            if getattr(model, key):
                raise _wrong(model, key, "0, as model.kv_lora_rank is 0 (no latent attention)")
        return
    for key in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"):
        if not getattr(model, key):
            raise _wrong(model, key, "1 or more, as model.kv_lora_rank is set (latent attention)")
    for key in ("qkv_bias", "out_bias", "biases", "qk_norm", "attention_sinks"):
        if getattr(model, key):
            raise _wrong(model, key, "false, as model.kv_lora_rank is set (latent attention)")


def _wrong(model: Model, key: str, allowed: str) -> PlanError:
    return PlanError(f"model.{key}", getattr(model, key), allowed)
