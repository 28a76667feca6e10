"""A tiny GPT-2 with random weights, as buffers and as the files that hold them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from tests.estimate.ggufs import Gguf
from tests.weights.models import ENCODERS, Floats

L, HIDDEN, HEADS, D, WIDTH, VOCAB, POSITIONS = 2, 64, 4, 16, 96, 40, 16
DIMS: dict[str, tuple[int, ...]] = {
    "embedding": (VOCAB, HIDDEN),
    "lm_head": (VOCAB, HIDDEN),
    "qkv_weight": (L, 3 * HIDDEN, HIDDEN),
    "qkv_bias": (L, 3 * HIDDEN),
    "out_weight": (L, HIDDEN, HIDDEN),
    "gate_up_weight": (L, WIDTH, HIDDEN),
    "down_weight": (L, HIDDEN, WIDTH),
    "attention_norm": (L, 2 * HIDDEN),
    "mlp_norm": (L, 2 * HIDDEN),
    "last_norm": (1, 2 * HIDDEN),
    "position_embedding": (POSITIONS, HIDDEN),
    "out_bias": (L, HIDDEN),
    "up_bias": (L, WIDTH),
    "down_bias": (L, HIDDEN),
}
CONFIG: dict[str, Any] = {
    "model_type": "gpt2", "n_embd": HIDDEN, "n_head": HEADS, "n_layer": L, "n_inner": WIDTH, "n_positions": POSITIONS,
    "vocab_size": VOCAB, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new",
}  # fmt: skip
_PARTS = (
    ("attn.c_attn", "attn_qkv", "qkv_weight", "qkv_bias"),
    ("attn.c_proj", "attn_output", "out_weight", "out_bias"),
    ("mlp.c_fc", "ffn_up", "gate_up_weight", "up_bias"),
    ("mlp.c_proj", "ffn_down", "down_weight", "down_bias"),
)
"""Name in safetensors, in GGUF, and the buffers of weight and bias."""
_NORMS = (("ln_1", "attn_norm", "attention_norm"), ("ln_2", "ffn_norm", "mlp_norm"))


def buffers() -> dict[str, Floats]:
    """Activations of order one; the embedding is the output projection as well."""
    random = np.random.default_rng(5)
    made = {
        name: random.normal(size=dims).astype(np.float32) / np.float32(dims[-1] ** 0.5) for name, dims in DIMS.items()
    }
    for name in ("attention_norm", "mlp_norm", "last_norm"):
        made[name] = random.uniform(-1.5, 1.5, DIMS[name]).astype(np.float32)
        made[name][:, HIDDEN:] *= np.float32(0.1)  # a large shift of the last one would always say the same token
    made["lm_head"] = made["embedding"]
    return made


def write_config(folder: Path, **changes: Any) -> None:
    (folder / "config.json").write_text(json.dumps({**CONFIG, **changes}))


def write_safetensors(folder: Path, made: dict[str, Floats], prefix: str = "") -> Path:
    """As published: projections with their inputs as rows, and masks of attention among the tensors."""
    values = {"wte.weight": made["embedding"], "wpe.weight": made["position_embedding"]}
    values["ln_f.weight"], values["ln_f.bias"] = np.split(made["last_norm"][0], 2)
    for layer in range(L):
        values[f"h.{layer}.attn.bias"] = np.tril(np.ones((1, 1, POSITIONS, POSITIONS), np.float32))
        for name, _, weight, bias in _PARTS:
            values[f"h.{layer}.{name}.weight"] = made[weight][layer].T
            values[f"h.{layer}.{name}.bias"] = made[bias][layer]
        for name, _, norm in _NORMS:
            values[f"h.{layer}.{name}.weight"], values[f"h.{layer}.{name}.bias"] = np.split(made[norm][layer], 2)
    write_config(folder)
    path = folder / "model.safetensors"
    save_file({prefix + name: np.ascontiguousarray(value) for name, value in values.items()}, path)
    return path


def write_gguf(path: Path, made: dict[str, Floats], projections: str = "F32") -> dict[str, Floats]:
    """As llama.cpp writes it; returns the buffers that the file stands for. ``projections``: type of their weights."""
    stored = dict(made)
    keys = {
        "general.architecture": "gpt2", "gpt2.block_count": L, "gpt2.embedding_length": HIDDEN,
        "gpt2.feed_forward_length": WIDTH, "gpt2.attention.head_count": HEADS, "gpt2.context_length": POSITIONS,
        "gpt2.attention.layer_norm_epsilon": 1e-5,
    }  # fmt: skip
    file = Gguf(keys, {})

    def put(name: str, value: Floats, kind: str = "F32") -> Floats:
        raw, stood_for = ENCODERS[kind](np.ascontiguousarray(value))
        file.tensors[name], file.types[name], file.data[name] = value.shape[::-1], kind, raw
        return stood_for

    put("token_embd.weight", made["embedding"])
    put("position_embd.weight", made["position_embedding"])
    for kind, values in zip(("weight", "bias"), np.split(made["last_norm"][0], 2), strict=True):
        put(f"output_norm.{kind}", values)
    for layer in range(L):
        for _, name, weight, bias in _PARTS:
            stored[weight] = stored[weight].copy()
            stored[weight][layer] = put(f"blk.{layer}.{name}.weight", made[weight][layer], projections)
            put(f"blk.{layer}.{name}.bias", made[bias][layer])
        for _, name, norm in _NORMS:
            for kind, values in zip(("weight", "bias"), np.split(made[norm][layer], 2), strict=True):
                put(f"blk.{layer}.{name}.{kind}", values)
    path.write_bytes(file.bytes())
    return stored
