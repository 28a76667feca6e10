"""A GGUF file → the ``model`` section: sizes from its keys, biases, norms and tied tables from the tensors it holds."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

from runner.config.errors import ConfigError, choose_from
from runner.config.schema import Model
from runner.estimate import architecture, gguf_file, params
from runner.estimate.architecture import LAYERS_LIMIT
from runner.estimate.config_file import NUMBER_LIMIT, UNKNOWN_LIMIT
from runner.estimate.gguf_file import Counted, Header

KNOWN = ("llama", "qwen2", "qwen2moe", "qwen3", "qwen3moe", "gpt2")
"""``general.architecture`` of the files that are understood; Mistral and Mixtral call themselves llama."""
_SHOWN = 80
"""Longer values are cut in messages."""
_UNDERSTOOD = frozenset(
    {
        "attention.head_count", "attention.head_count_kv", "attention.key_length", "attention.value_length",
        "block_count", "embedding_length", "expert_count", "expert_feed_forward_length", "expert_used_count",
        "feed_forward_length",
    }
)  # fmt: skip
_IRRELEVANT = frozenset(
    {
        "attention.causal", "attention.layer_norm_epsilon", "attention.layer_norm_rms_epsilon", "context_length",
        "expert_gating_func", "expert_shared_count", "expert_shared_feed_forward_length", "expert_weights_norm",
        "expert_weights_scale", "leading_dense_block_count", "rope.dimension_count", "rope.freq_base",
        "rope.scale_linear", "rope.scaling.attn_factor", "rope.scaling.factor", "rope.scaling.finetuned",
        "rope.scaling.original_context_length", "rope.scaling.type", "tensor_data_layout", "vocab_size",
    }
)  # fmt: skip
"""Under the architecture's name: change no size, or what the tensors themselves say."""
_TABLES = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")
"""Constants of the rotary positions, no parameters."""


def read(path: str | Path) -> Model:
    """The model in ``path``, ``params_total`` as its tensors hold, and a note on how they are stored.

    ``ConfigError`` names the file, the key, its value and what would be accepted.
    """
    path = Path(path)
    return described(gguf_file.load(path), path)


def described(header: Header, path: Path) -> Model:
    """``read`` of a header that was read already, of ``path``."""
    kind = _text(header, "general.architecture")
    if kind not in KNOWN:
        raise ConfigError(f"{header.file}: general.architecture={kind}: {choose_from(kind, KNOWN)}")
    if "token_embd.weight" not in header.tensors:
        raise ConfigError(f"{header.file}: no tensor token_embd.weight: a model file has one, a vocabulary file not")
    model = _model(header, kind, path)
    try:
        made = architecture.of(model)
    except ConfigError as error:
        raise ConfigError(f"{header.file}: as read, {error}") from error
    counted = params.count(made).total
    if counted != model.params_total:
        model.notes.append(
            f"the tensors hold {model.params_total:,} parameters, the architecture as it was read has {counted:,}: "
            "something in the file was not understood"
        )
    return model


def tensor_bytes(header: Header) -> dict[str, int]:
    """Bytes of all tensors by type, the largest first."""
    by_type: Counter[str] = Counter()
    for tensor in header.tensors.values():
        by_type[tensor.type] += tensor.bytes
    return dict(by_type.most_common())


def _model(header: Header, kind: str, path: Path) -> Model:
    hidden, heads = _number(header, f"{kind}.embedding_length"), _number(header, f"{kind}.attention.head_count")
    kv_heads = _number(header, f"{kind}.attention.head_count_kv", default=heads)
    if heads % kv_heads:
        raise _wrong(header, f"{kind}.attention.head_count_kv", kv_heads, f"a divisor of head_count={heads}")
    key_length = f"{kind}.attention.key_length"
    if key_length not in header.values and hidden % heads:
        raise _wrong(
            header, f"{kind}.attention.head_count", heads, f"a divisor of embedding_length={hidden}, or {key_length}"
        )
    head_dim = _number(header, key_length, default=hidden // heads)
    value_length = f"{kind}.attention.value_length"
    value_dim = _number(header, value_length, default=head_dim)
    if value_dim != head_dim:
        raise _wrong(header, value_length, value_dim, f"as key_length, {head_dim}")
    table = header.tensors["token_embd.weight"].shape
    if len(table) != 2 or table[0] != hidden:
        raise ConfigError(f"{header.file}: tensor token_embd.weight={table}: {kind}.embedding_length={hidden} by words")
    layers = _number(header, f"{kind}.block_count")
    last = f"blk.{layers - 1}"
    held = header.tensors
    return Model(
        name=path.stem,
        title=path.stem,
        source=f"{path.name}, a GGUF file of architecture {kind}",
        config_json=str(path),
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=_number(header, f"{kind}.feed_forward_length"),
        vocab=table[1],
        tied_embeddings="output.weight" not in held,
        qkv_bias=any(f"{last}.{name}.bias" in held for name in ("attn_q", "attn_qkv")),
        out_bias=f"{last}.attn_output.bias" in held,
        mlp_bias=f"{last}.ffn_down.bias" in held,
        qk_norm=f"{last}.attn_q_norm.weight" in held,
        gated_mlp=any(f"{last}.{name}.weight" in held for name in ("ffn_gate", "ffn_gate_exps", "ffn_gate.0")),
        biases="output_norm.bias" in held,
        max_positions=held["position_embd.weight"].shape[-1] if "position_embd.weight" in held else 0,
        **_rope(header, kind, head_dim),
        params_total=sum(tensor.elements for tensor in held.values() if tensor.name not in _TABLES),
        notes=_notes(header, kind),
        **_mixture(header, kind, layers),
    )


def _rope(header: Header, kind: str, head_dim: int) -> dict[str, Any]:
    """Figures of the rotary positions, and ``norm_eps``. Llama 3.1's factors are a tensor, not keys."""
    key = f"{kind}.rope.scaling.type"
    scaling = header.values.get(key, "")
    if not isinstance(scaling, str) or len(scaling) > _SHOWN:
        raise _wrong(header, key, scaling, "none, linear, yarn or longrope")
    factor = _real(header, f"{kind}.rope.scaling.factor", _real(header, f"{kind}.rope.scale_linear", 1.0))
    if scaling in ("", "none"):
        given, scaling = scaling, ""
        if "rope_freqs.weight" in header.tensors:
            scaling = "llama3"
        elif factor != 1 and not given:  # a factor without a kind is linear
            scaling = "linear"
        elif _number(header, f"{kind}.rope.dimension_count", default=head_dim) != head_dim:
            scaling = "partial"
    norm = "layer_norm_epsilon" if kind == "gpt2" else "layer_norm_rms_epsilon"
    return {
        "rope_theta": _real(header, f"{kind}.rope.freq_base", 10_000.0),
        "rope_scaling": scaling,
        "rope_factor": factor if scaling == "linear" else 1.0,
        "norm_eps": _real(header, f"{kind}.attention.{norm}", 1e-5),
    }


def _mixture(header: Header, kind: str, layers: int) -> dict[str, Any]:
    """Figures of a mixture; nothing where the model is dense. Its first layers are dense until one has a router."""
    experts = _number(header, f"{kind}.expert_count", least=0, default=0)
    if not experts:
        return {}
    routers = [f"blk.{number}.ffn_gate_inp.weight" in header.tensors for number in range(min(layers, LAYERS_LIMIT))]
    dense = routers.index(True) if True in routers else len(routers)
    if not all(routers[dense:]):
        raise _wrong(header, f"{kind}.expert_count", experts, "a router in every layer after the first one that has it")
    last = f"blk.{layers - 1}"
    feed_forward = f"{kind}.feed_forward_length"
    width = _number(
        header, f"{kind}.expert_feed_forward_length", default=_number(header, feed_forward) if kind == "llama" else None
    )
    return {
        "experts": experts,
        "top_k": _number(header, f"{kind}.expert_used_count"),
        "moe_intermediate": width,
        "dense_layers": dense,
        "shared_experts": _shared(header, last, width),
        "shared_gate": f"{last}.ffn_gate_inp_shexp.weight" in header.tensors,
        "router_bias": f"{last}.exp_probs_b.bias" in header.tensors,
    }


def _shared(header: Header, last: str, width: int) -> int:
    """Shared experts in units of one expert's width, from the width of their own matrix."""
    tensor = header.tensors.get(f"{last}.ffn_up_shexp.weight")
    if tensor is None:
        return 0
    if len(tensor.shape) != 2 or tensor.shape[1] % width:
        raise ConfigError(f"{header.file}: tensor {tensor.name}={tensor.shape}: a multiple of {width} columns wide")
    return tensor.shape[1] // width


def _notes(header: Header, kind: str) -> list[str]:
    stored = tensor_bytes(header)
    parts = ", ".join(f"{name} {size:,}" for name, size in stored.items())
    found = [f"stored in {sum(stored.values()):,} bytes ({parts}): set estimate.weights to what it mostly is"]
    if not header.has_data:
        found.append("the file ends with its header: its tensors are not there")
    words, table = header.values.get("tokenizer.ggml.tokens"), header.tensors["token_embd.weight"].shape[1]
    if isinstance(words, Counted) and words.entries != table:
        found.append(f"the tokenizer has {words.entries:,} words, the table {table:,} rows: the rows count")
    known = {f"{kind}.{key}" for key in _UNDERSTOOD | _IRRELEVANT}
    unknown = [key for key in header.values if key.startswith(f"{kind}.") and key not in known]
    if len(unknown) > UNKNOWN_LIMIT:
        raise _wrong(header, unknown[0], header.values[unknown[0]], f"at most {UNKNOWN_LIMIT} keys not understood")
    for key in unknown:
        found.append(f"{key}={_shown(header.values[key])} was not understood: what it changes is not in the figures")
    return found


def _number(header: Header, key: str, *, least: int = 1, default: int | None = None) -> int:
    """A whole number, or a list that holds the same one for every layer."""
    value = header.values.get(key, default)
    if value is None:
        raise ConfigError(f"{header.file}: {key} is missing: a whole number, {least} or more")
    if isinstance(value, list):
        if len(set(value)) != 1:
            raise _wrong(header, key, value, "the same in every layer")
        value = value[0]
    if type(value) is not int or not least <= value <= NUMBER_LIMIT:
        raise _wrong(header, key, value, f"a whole number from {least} to {NUMBER_LIMIT}")
    return value


def _real(header: Header, key: str, default: float) -> float:
    """A number above 0. The file has it in float32: seven digits say what was meant."""
    value = header.values.get(key, default)
    if type(value) not in (int, float) or not 0 < value < math.inf:
        raise _wrong(header, key, value, "a number above 0")
    return float(f"{value:.7g}")


def _text(header: Header, key: str) -> str:
    value = header.values.get(key)
    if value is None:
        raise ConfigError(f"{header.file}: {key} is missing: one of {', '.join(KNOWN)}")
    if not isinstance(value, str):
        raise _wrong(header, key, value, f"one of {', '.join(KNOWN)}")
    return value


def _wrong(header: Header, key: str, value: object, allowed: str) -> ConfigError:
    return ConfigError(f"{header.file}: {key}={_shown(value)}: {allowed}")


def _shown(value: object) -> str:
    if isinstance(value, Counted):
        return f"a list or text of {value.entries} entries"
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…"
