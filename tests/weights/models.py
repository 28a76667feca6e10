"""A tiny decoder with random weights, as the buffers of a family and as the files that hold them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from tests.estimate.ggufs import Gguf
from tests.weights.kquants import q4_k, q6_k

Floats = npt.NDArray[np.float32]

L, HIDDEN, HEADS, KV, D, WIDTH, VOCAB = 2, 256, 4, 2, 16, 96, 40
DIMS: dict[str, tuple[int, ...]] = {
    "embedding": (VOCAB, HIDDEN),
    "lm_head": (VOCAB, HIDDEN),
    "qkv_weight": (L, (HEADS + 2 * KV) * D, HIDDEN),
    "qkv_bias": (L, (HEADS + 2 * KV) * D),
    "out_weight": (L, HIDDEN, HEADS * D),
    "gate_up_weight": (L, 2 * WIDTH, HIDDEN),
    "down_weight": (L, HIDDEN, WIDTH),
    "attention_norm": (L, HIDDEN),
    "mlp_norm": (L, HIDDEN),
    "last_norm": (1, HIDDEN),
}
CONFIG: dict[str, Any] = {
    "model_type": "qwen2", "hidden_size": HIDDEN, "num_attention_heads": HEADS, "num_key_value_heads": KV,
    "head_dim": D, "num_hidden_layers": L, "intermediate_size": WIDTH, "vocab_size": VOCAB, "hidden_act": "silu",
    "tie_word_embeddings": False, "rope_theta": 1e6, "rms_norm_eps": 1e-6,
}  # fmt: skip
_GGUF_NAMES = {
    "model.embed_tokens": "token_embd", "lm_head": "output", "model.norm": "output_norm", "model.layers.": "blk.",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
}  # fmt: skip


def buffers(seed: int = 0) -> dict[str, Floats]:
    """Name → values, such as float16 and bfloat16 hold exactly."""
    random = np.random.default_rng(seed)
    return {name: (random.integers(-64, 64, dims) / 32).astype(np.float32) for name, dims in DIMS.items()}


def tensors(made: dict[str, Floats]) -> dict[str, Floats]:
    """The same under Hugging Face's names, one tensor a projection and layer."""
    found = {
        "model.embed_tokens.weight": made["embedding"],
        "lm_head.weight": made["lm_head"],
        "model.norm.weight": made["last_norm"][0],
    }
    q, k = HEADS * D, (HEADS + KV) * D
    for layer in range(L):
        at = f"model.layers.{layer}"
        for kind, stacked in (("weight", made["qkv_weight"][layer]), ("bias", made["qkv_bias"][layer])):
            for letter, rows in zip("qkv", np.split(stacked, [q, k]), strict=True):
                found[f"{at}.self_attn.{letter}_proj.{kind}"] = rows
        gate, up = np.split(made["gate_up_weight"][layer], 2)
        found |= {f"{at}.mlp.gate_proj.weight": gate, f"{at}.mlp.up_proj.weight": up}
        for name, buffer in (
            ("self_attn.o_proj", "out_weight"),
            ("mlp.down_proj", "down_weight"),
            ("input_layernorm", "attention_norm"),
            ("post_attention_layernorm", "mlp_norm"),
        ):
            found[f"{at}.{name}.weight"] = made[buffer][layer]
    return {name: np.ascontiguousarray(value) for name, value in found.items()}


def write_config(folder: Path, **changes: Any) -> None:
    (folder / "config.json").write_text(json.dumps({**CONFIG, **changes}))


def write_safetensors(folder: Path, values: dict[str, Any], name: str = "model.safetensors") -> Path:
    write_config(folder)
    save_file(values, folder / name)
    return folder / name


def gguf_name(name: str) -> str:
    for old, new in _GGUF_NAMES.items():
        name = name.replace(old, new)
    return name


def interleaved(rows: Floats, heads: int) -> Floats:
    """As llama.cpp stores Q and K of a Llama: element i of a head beside element i + D / 2."""
    return rows.reshape(heads, 2, -1, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


Encode = Callable[[Floats], tuple[bytes, Floats]]


def packaged(kind: str) -> Encode:
    """Through the gguf package's own encoder."""

    def encode(values: Floats) -> tuple[bytes, Floats]:
        number = gguf.GGMLQuantizationType[kind]
        raw = gguf.quants.quantize(values, number)
        return raw.tobytes(), gguf.quants.dequantize(raw, number)

    return encode


ENCODERS: dict[str, Encode] = {
    "F32": lambda values: (values.tobytes(), values),
    "F16": lambda values: (values.astype("<f2").tobytes(), values.astype(np.float16).astype(np.float32)),
    "BF16": packaged("BF16"),
    "Q8_0": packaged("Q8_0"),
    "Q5_0": packaged("Q5_0"),
    "Q4_K": q4_k,
    "Q6_K": q6_k,
}


def write_gguf(
    path: Path,
    values: dict[str, Floats],
    kind: str = "qwen2",
    type_of: Callable[[str], str] = lambda name: "F32",
    keys: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Floats]:
    """Tensors under Hugging Face's names, as a GGUF file. Returns the values that the file stands for."""
    made = Gguf(
        {
            "general.architecture": kind,
            f"{kind}.block_count": L,
            f"{kind}.embedding_length": HIDDEN,
            f"{kind}.feed_forward_length": WIDTH,
            f"{kind}.attention.head_count": HEADS,
            f"{kind}.attention.head_count_kv": KV,
            f"{kind}.attention.key_length": D,
            f"{kind}.attention.value_length": D,
            f"{kind}.attention.layer_norm_rms_epsilon": 1e-6,
            f"{kind}.rope.freq_base": 1e6,
            **keys,
        },
        {},
    )
    stored: dict[str, Floats] = {}
    for name, value in values.items():
        heads = {"q_proj": HEADS, "k_proj": KV}.get(name.split(".")[-2], 0) if kind == "llama" else 0
        called, type_name = gguf_name(name), type_of(gguf_name(name))
        raw, stood_for = ENCODERS[type_name](interleaved(value, heads) if heads else value)
        made.tensors[called], made.types[called], made.data[called] = value.shape[::-1], type_name, raw
        stored[name] = _restored(stood_for, heads) if heads else stood_for
    path.write_bytes(made.bytes())
    return stored


def _restored(rows: Floats, heads: int) -> Floats:
    """Turns ``interleaved`` back, by an index for each row."""
    size = len(rows) // heads
    order = [head * size + 2 * (i % (size // 2)) + i // (size // 2) for head in range(heads) for i in range(size)]
    return rows[order]
