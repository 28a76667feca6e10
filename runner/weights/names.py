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


@dataclass(frozen=True)
class Stack:
    parts: tuple[Part, ...]
    layered: bool = True
    """One set of parts per layer, stacked along a first dimension."""


def _queries(m: Model) -> int:
    return m.heads * m.head_dim


def _keys(m: Model) -> int:
    return m.kv_heads * m.head_dim


def _attention(kind: str, shape_of: Callable[[Model, int], Shape]) -> tuple[Part, ...]:
    def part(letter: str, rows: Callable[[Model], int], heads: Callable[[Model], int] | None) -> Part:
        names = (f"model.layers.{{}}.self_attn.{letter}_proj.{kind}", f"blk.{{}}.attn_{letter}.{kind}")
        return Part(*names, lambda m: shape_of(m, rows(m)), heads)

    return (part("q", _queries, lambda m: m.heads), part("k", _keys, lambda m: m.kv_heads), part("v", _keys, None))


def _layer(hf: str, gguf: str, shape: Callable[[Model], Shape]) -> Part:
    return Part(f"model.layers.{{}}.{hf}.weight", f"blk.{{}}.{gguf}.weight", shape)


_EMBEDDING = Part("model.embed_tokens.weight", "token_embd.weight", lambda m: (m.vocab, m.hidden))
_HEAD = Part("lm_head.weight", "output.weight", lambda m: (m.vocab, m.hidden))

_STACKS: dict[str, Stack] = {
    "embedding": Stack((_EMBEDDING,), layered=False),
    "lm_head": Stack((_HEAD,), layered=False),
    "qkv_weight": Stack(_attention("weight", lambda m, rows: (rows, m.hidden))),
    "qkv_bias": Stack(_attention("bias", lambda m, rows: (rows,))),
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
ROPE_FACTORS = "rope_freqs.weight"
"""Of a GGUF file: one for each pair of a head's elements."""
BUFFERS = tuple(_STACKS)
"""Names of the buffers that a file can fill."""


def stack(name: str, model: Model) -> Stack:
    """The tensors of buffer ``name``; a tied model's output projection is its embedding. ``KeyError`` where unknown."""
    return _STACKS["embedding" if name == "lm_head" and model.tied_embeddings else name]


def dims(name: str, model: Model) -> Shape:
    """Of the whole buffer, C order: ``(layers, rows, columns)``; ``(rows, columns)`` of one that all layers share."""
    made = stack(name, model)
    first = made.parts[0].shape(model)
    rest = (sum(part.shape(model)[0] for part in made.parts), *first[1:])
    if made.layered:
        return (model.layers, *rest)
    return rest if len(rest) > 1 else (1, *rest)
