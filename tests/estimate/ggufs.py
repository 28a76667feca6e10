"""GGUF files of the tests, written byte by byte after the format's description."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field
from typing import Any

from runner.estimate.gguf_file import TYPES

NUMBERS = {name: number for number, (name, _, _) in TYPES.items()}


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def value(item: Any) -> bytes:
    """Type and value of a key: texts, flags, whole numbers (uint32), floats, lists of one of them."""
    if isinstance(item, str):
        return struct.pack("<I", 8) + text(item)
    if isinstance(item, bool):
        return struct.pack("<IB", 7, item)
    if isinstance(item, int):
        return struct.pack("<II", 4, item)
    if isinstance(item, float):
        return struct.pack("<If", 6, item)
    inner = [value(one) for one in item]
    return struct.pack("<I4sQ", 9, inner[0][:4], len(inner)) + b"".join(one[4:] for one in inner)


@dataclass
class Gguf:
    """What a file says; ``bytes()`` is the file."""

    keys: dict[str, Any]
    tensors: dict[str, tuple[int, ...]]
    """Name → shape, fastest dimension first."""
    types: dict[str, str] = field(default_factory=dict)
    """Name → type; F32 where not named."""
    data: dict[str, bytes] = field(default_factory=dict)
    """Name → what stands in the file for it; zeros where not named."""

    def header(self) -> bytes:
        made = struct.pack("<4sIQQ", b"GGUF", 3, len(self.tensors), len(self.keys))
        made += b"".join(text(key) + value(item) for key, item in self.keys.items())
        offset = 0
        for name, shape in self.tensors.items():
            kind = self.types.get(name, "F32")
            made += text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
            made += struct.pack("<IQ", NUMBERS[kind], offset)
            offset += -(-self.size(name) // 32) * 32
        return made + bytes(-len(made) % 32)

    def size(self, name: str) -> int:
        _, block, width = TYPES[NUMBERS[self.types.get(name, "F32")]]
        return math.prod(self.tensors[name]) // block * width

    def bytes(self) -> bytes:
        made = [self.data.get(name, bytes(self.size(name))) for name in self.tensors]
        return self.header() + b"".join(data + bytes(-len(data) % 32) for data in made)


def llama(
    hidden: int = 32, layers: int = 2, heads: int = 4, kv_heads: int = 2, width: int = 64, vocab: int = 96
) -> Gguf:
    """A dense, untied decoder."""
    kv = hidden // heads * kv_heads
    tensors: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (hidden, vocab),
        "output_norm.weight": (hidden,),
        "output.weight": (hidden, vocab),
    }
    for number in range(layers):
        tensors |= {
            f"blk.{number}.attn_norm.weight": (hidden,),
            f"blk.{number}.attn_q.weight": (hidden, hidden),
            f"blk.{number}.attn_k.weight": (hidden, kv),
            f"blk.{number}.attn_v.weight": (hidden, kv),
            f"blk.{number}.attn_output.weight": (hidden, hidden),
            f"blk.{number}.ffn_norm.weight": (hidden,),
            f"blk.{number}.ffn_gate.weight": (hidden, width),
            f"blk.{number}.ffn_up.weight": (hidden, width),
            f"blk.{number}.ffn_down.weight": (width, hidden),
        }
    keys = {
        "general.architecture": "llama",
        "general.alignment": 32,
        "llama.block_count": layers,
        "llama.embedding_length": hidden,
        "llama.feed_forward_length": width,
        "llama.attention.head_count": heads,
        "llama.attention.head_count_kv": kv_heads,
        "llama.context_length": 128,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "tokenizer.ggml.tokens": [f"word {number}" for number in range(vocab)],
        "tokenizer.chat_template": "x" * 10_000,
    }
    return Gguf(keys, tensors)
