"""Which tensors of a file make which buffer, and the shapes that a model's figures give them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from runner.config.schema import Model

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Part:
    """A tensor of a buffer; those of a layer lie behind each other along the rows."""

    hf: str
    """Its name in safetensors, the layer's number for ``{}``."""
    gguf: str
    shape: Callable[[Model], Shape]
    heads: Callable[[Model], int] | None = None
    """Rotary heads among its rows; None where its rows are no queries or keys."""
    turned: bool = False
    """Stored with rows and columns exchanged in safetensors, as GPT-2's projections are."""


@dataclass(frozen=True)
class Stack:
    parts: tuple[Part, ...]
    layered: bool = True
    """One set of parts per layer, stacked along a first dimension."""


def _queries(m: Model) -> int:
    return m.heads * m.head_dim


def _keys(m: Model) -> int:
    return m.kv_heads * m.head_dim


def _attention(kind: str, shape_of: Callable[[Model, int], Shape]) -> Stack:
    def part(letter: str, rows: Callable[[Model], int], heads: Callable[[Model], int] | None) -> Part:
        names = (f"model.layers.{{}}.self_attn.{letter}_proj.{kind}", f"blk.{{}}.attn_{letter}.{kind}")
        return Part(*names, lambda m: shape_of(m, rows(m)), heads)

    return Stack(
        (part("q", _queries, lambda m: m.heads), part("k", _keys, lambda m: m.kv_heads), part("v", _keys, None))
    )


def _layer(hf: str, gguf: str, shape: Callable[[Model], Shape]) -> Part:
    return Part(f"model.layers.{{}}.{hf}.weight", f"blk.{{}}.{gguf}.weight", shape)


_EMBEDDING = Part("model.embed_tokens.weight", "token_embd.weight", lambda m: (m.vocab, m.hidden))
_HEAD = Part("lm_head.weight", "output.weight", lambda m: (m.vocab, m.hidden))

_LLAMA: dict[str, Stack] = {
    "embedding": Stack((_EMBEDDING,), layered=False),
    "lm_head": Stack((_HEAD,), layered=False),
    "qkv_weight": _attention("weight", lambda m, rows: (rows, m.hidden)),
    "qkv_bias": _attention("bias", lambda m, rows: (rows,)),
    "out_weight": Stack((_layer("self_attn.o_proj", "attn_output", lambda m: (m.hidden, _queries(m))),)),
    "gate_up_weight": Stack(
        (
            _layer("mlp.gate_proj", "ffn_gate", lambda m: (m.intermediate, m.hidden)),
            _layer("mlp.up_proj", "ffn_up", lambda m: (m.intermediate, m.hidden)),
        )
    ),
    "down_weight": Stack((_layer("mlp.down_proj", "ffn_down", lambda m: (m.hidden, m.intermediate)),)),
    "attention_norm": Stack((_layer("input_layernorm", "attn_norm", lambda m: (m.hidden,)),)),
    "mlp_norm": Stack((_layer("post_attention_layernorm", "ffn_norm", lambda m: (m.hidden,)),)),
    "last_norm": Stack((Part("model.norm.weight", "output_norm.weight", lambda m: (m.hidden,)),), layered=False),
}


def _gpt2(hf: str, gguf: str, rows: Callable[[Model], int], depth: Callable[[Model], int]) -> dict[str, Stack]:
    """A projection's weight and bias, by ``weight`` and ``bias``."""
    names = f"h.{{}}.{hf}", f"blk.{{}}.{gguf}"
    weight = Part(f"{names[0]}.weight", f"{names[1]}.weight", lambda m: (rows(m), depth(m)), turned=True)
    bias = Part(f"{names[0]}.bias", f"{names[1]}.bias", lambda m: (rows(m),))
    return {"weight": Stack((weight,)), "bias": Stack((bias,))}


def _layer_norm(hf: str, gguf: str, layered: bool = True) -> Stack:
    """Factors, and shifts behind them."""
    return Stack(
        tuple(Part(f"{hf}.{kind}", f"{gguf}.{kind}", lambda m: (m.hidden,)) for kind in ("weight", "bias")), layered
    )


def _gpt2_stacks() -> dict[str, Stack]:
    def hidden(m: Model) -> int:
        return m.hidden

    qkv = _gpt2("attn.c_attn", "attn_qkv", lambda m: _queries(m) + 2 * _keys(m), hidden)
    out = _gpt2("attn.c_proj", "attn_output", hidden, _queries)
    up = _gpt2("mlp.c_fc", "ffn_up", lambda m: m.intermediate, hidden)
    down = _gpt2("mlp.c_proj", "ffn_down", hidden, lambda m: m.intermediate)
    words = Part("wte.weight", "token_embd.weight", lambda m: (m.vocab, m.hidden))
    positions = Part("wpe.weight", "position_embd.weight", lambda m: (m.max_positions, m.hidden))
    return {
        "embedding": Stack((words,), layered=False),
        "lm_head": Stack((_HEAD,), layered=False),
        "qkv_weight": qkv["weight"],
        "qkv_bias": qkv["bias"],
        "out_weight": out["weight"],
        "gate_up_weight": up["weight"],
        "down_weight": down["weight"],
        "attention_norm": _layer_norm("h.{}.ln_1", "blk.{}.attn_norm"),
        "mlp_norm": _layer_norm("h.{}.ln_2", "blk.{}.ffn_norm"),
        "last_norm": _layer_norm("ln_f", "output_norm", layered=False),
        "position_embedding": Stack((positions,), layered=False),
        "out_bias": out["bias"],
        "up_bias": up["bias"],
        "down_bias": down["bias"],
    }


_GPT2 = _gpt2_stacks()
ROPE_FACTORS = "rope_freqs.weight"
"""Of a GGUF file: one for each pair of a head's elements."""
BUFFERS = tuple(_GPT2)
"""Names of the buffers that a file can fill: of every model some or all."""


def stacks(model: Model) -> dict[str, Stack]:
    """The tensors of every buffer that the model has; a tied model's output projection is its embedding."""
    found = dict(_GPT2 if model.max_positions else _LLAMA)
    if model.tied_embeddings:
        found["lm_head"] = found["embedding"]
    if not (model.qkv_bias or model.max_positions):
        del found["qkv_bias"]
    return found


def dims(name: str, model: Model) -> Shape:
    """Of the whole buffer, C order: ``(layers, rows, columns)``; ``(rows, columns)`` of one that all layers share.
    ``KeyError`` where the model has none of that name."""
    made = stacks(model)[name]
    first = made.parts[0].shape(model)
    rest = (sum(part.shape(model)[0] for part in made.parts), *first[1:])
    if made.layered:
        return (model.layers, *rest)
    return rest if len(rest) > 1 else (1, *rest)
