"""Files of both formats give the buffers that they were made of; anything else is one clear error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from runner.weights import names, tensor
from runner.weights.errors import WeightsError
from runner.weights.stacked import buffer, verify
from tests.weights.models import (
    DIMS,
    HEADS,
    HIDDEN,
    KV,
    D,
    Floats,
    buffers,
    interleaved,
    tensors,
    write_config,
    write_gguf,
    write_safetensors,
)


def same(path: Path, made: dict[str, Floats]) -> None:
    verify(str(path))
    for name, dims in DIMS.items():
        found = buffer(str(path), name, dims)
        assert found.dtype == np.float32 and found.flags.c_contiguous
        np.testing.assert_array_equal(found, made[name], err_msg=name)


def restacked(stored: dict[str, Floats]) -> dict[str, Floats]:
    """Buffers of tensors under Hugging Face's names."""
    layers = range(DIMS["attention_norm"][0])

    def joined(*parts: str) -> Floats:
        return np.stack([np.concatenate([stored[f"model.layers.{n}.{part}"] for part in parts]) for n in layers])

    return {
        "embedding": stored["model.embed_tokens.weight"],
        "lm_head": stored["lm_head.weight"],
        "last_norm": stored["model.norm.weight"][None],
        "qkv_weight": joined(*(f"self_attn.{letter}_proj.weight" for letter in "qkv")),
        "qkv_bias": joined(*(f"self_attn.{letter}_proj.bias" for letter in "qkv")),
        "out_weight": joined("self_attn.o_proj.weight"),
        "gate_up_weight": joined("mlp.gate_proj.weight", "mlp.up_proj.weight"),
        "down_weight": joined("mlp.down_proj.weight"),
        "attention_norm": joined("input_layernorm.weight"),
        "mlp_norm": joined("post_attention_layernorm.weight"),
    }


def test_the_names_of_the_tests_are_all_of_this_kind() -> None:
    assert tuple(DIMS) == names.BUFFERS[: len(DIMS)], "the others are GPT-2's: test_gpt2.py"


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_one_safetensors_file(tmp_path: Path, dtype: Any) -> None:
    made = buffers()
    path = write_safetensors(tmp_path, {name: value.astype(dtype) for name, value in tensors(made).items()})
    same(path, made)
    same(tmp_path, made)


@pytest.mark.parametrize("kind", ["llama", "qwen2"])
@pytest.mark.parametrize("stored", ["F32", "F16", "BF16"])
def test_a_gguf_file_of_plain_floats(tmp_path: Path, kind: str, stored: str) -> None:
    made = buffers()
    path = tmp_path / "m.gguf"
    write_gguf(path, tensors(made), kind, lambda name: stored)
    same(path, made)


def mixed(name: str) -> str:
    """As a Q4_K_M file is: rows that are no multiple of 256 fall back to blocks of 32, vectors stay float32."""
    if name.endswith("bias") or "norm" in name:
        return "F32"
    if "attn_output" in name:
        return "Q5_0"
    if "ffn_down" in name:
        return "Q8_0"
    return "Q6_K" if "attn_v" in name or name.startswith("output") else "Q4_K"


@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_a_quantised_gguf_file(tmp_path: Path, kind: str) -> None:
    random = np.random.default_rng(1)
    made = {name: random.normal(size=dims).astype(np.float32) for name, dims in DIMS.items()}
    path = tmp_path / "m.gguf"
    stored = restacked(write_gguf(path, tensors(made), kind, mixed))
    same(path, stored)
    for name, limit in (("embedding", 0.25), ("lm_head", 0.1), ("down_weight", 0.02), ("out_weight", 0.2)):
        assert 0 < np.abs(stored[name] - made[name]).max() < limit, name


def test_rows_are_decoded_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor, "CHUNK_ELEMENTS", 3 * HIDDEN)
    made = buffers()
    path = tmp_path / "m.gguf"
    write_gguf(path, tensors(made), "llama")
    same(path, made)


def test_scores_of_interleaved_rows_are_those_of_halves() -> None:
    """What the reordering is for: both ways of turning positions give the same attention, each on its own rows."""
    random = np.random.default_rng(2)
    q, k = (random.normal(size=(D, 8)).astype(np.float32) for _ in range(2))
    x, y = random.normal(size=(2, 8))

    def turned(values: npt.NDArray[Any], position: int, first: slice, second: slice) -> npt.NDArray[Any]:
        angles = position * 10_000.0 ** (-np.arange(0, D, 2) / D)
        low, high = values[first], values[second]
        out = np.empty_like(values)
        out[first] = low * np.cos(angles) - high * np.sin(angles)
        out[second] = high * np.cos(angles) + low * np.sin(angles)
        return out

    halves = (slice(None, D // 2), slice(D // 2, None))
    neighbours = (slice(None, None, 2), slice(1, None, 2))
    expected = turned(q @ x, 5, *halves) @ turned(k @ y, 3, *halves)
    found = turned(interleaved(q, 1) @ x, 5, *neighbours) @ turned(interleaved(k, 1) @ y, 3, *neighbours)
    assert found == pytest.approx(expected)


def test_a_tied_model_has_its_embedding_for_a_head(tmp_path: Path) -> None:
    made = buffers()
    values = tensors(made)
    del values["lm_head.weight"]
    write_safetensors(tmp_path, values)
    write_config(tmp_path, tie_word_embeddings=True)
    write_gguf(tmp_path / "m.gguf", values)
    for path in (tmp_path, tmp_path / "m.gguf"):
        verify(str(path))
        np.testing.assert_array_equal(buffer(str(path), "lm_head", DIMS["lm_head"]), made["embedding"])


def test_a_model_without_biases(tmp_path: Path) -> None:
    made = buffers()
    write_safetensors(tmp_path, {name: value for name, value in tensors(made).items() if not name.endswith("bias")})
    write_config(tmp_path, model_type="llama")
    verify(str(tmp_path))
    np.testing.assert_array_equal(buffer(str(tmp_path), "qkv_weight", DIMS["qkv_weight"]), made["qkv_weight"])
    with pytest.raises(WeightsError, match="buffer qkv_bias: this model has none; it has embedding, "):
        buffer(str(tmp_path), "qkv_bias", DIMS["qkv_bias"])


def test_the_first_layers_alone(tmp_path: Path) -> None:
    made = buffers()
    write_safetensors(tmp_path, tensors(made))
    found = buffer(str(tmp_path), "down_weight", (1, *DIMS["down_weight"][1:]))
    np.testing.assert_array_equal(found, made["down_weight"][:1])


@pytest.mark.parametrize(
    ("name", "dims", "said"),
    [
        (
            "down_weight",
            (3, 256, 96),
            "buffer down_weight: the experiment has [3, 256, 96], the file's model [2, 256, 96]",
        ),
        ("down_weight", (2, 256, 64), "(or fewer layers): parameters of the kernel, or the caps of scale, differ"),
        ("embedding", (20, 256), "buffer embedding: the experiment has [20, 256], the file's model [40, 256]: "),
        ("last_norm", (256,), "the experiment has [256], the file's model [1, 256]"),
        ("embeding", (40, 256), "buffer 'embeding' cannot be filled from weights; did you mean 'embedding'?"),
    ],
)
def test_what_the_experiment_asks_for_must_be_the_models(
    tmp_path: Path, name: str, dims: tuple[int, ...], said: str
) -> None:
    write_safetensors(tmp_path, tensors(buffers()))
    with pytest.raises(WeightsError) as refused:
        buffer(str(tmp_path), name, dims)
    assert str(refused.value).startswith(f"{tmp_path}: ") and said in str(refused.value)


def test_a_missing_tensor_and_a_wrong_shape_are_named(tmp_path: Path) -> None:
    values = tensors(buffers())
    del values["model.layers.1.mlp.up_proj.weight"]
    values["model.layers.1.self_attn.k_proj.weight"] = np.zeros((KV * D, HEADS), np.float32)
    write_safetensors(tmp_path, values)
    write_gguf(tmp_path / "m.gguf", values)
    for path, missing, odd, file in (
        (tmp_path, "model.layers.1.mlp.up_proj.weight", "model.layers.1.self_attn.k_proj.weight", "model.safetensors"),
        (tmp_path / "m.gguf", "blk.1.ffn_up.weight", "blk.1.attn_k.weight", "m.gguf"),
    ):
        with pytest.raises(WeightsError) as refused:
            buffer(str(path), "gate_up_weight", DIMS["gate_up_weight"])
        assert f"{path}: no tensor {missing}" in str(refused.value)
        with pytest.raises(WeightsError) as refused:
            verify(str(path))
        assert str(refused.value) == (
            f"{tmp_path / file}: tensor {odd}: shape [32, 4], by the model's figures [32, 256]"
        )


def test_a_gate_of_another_kind_is_refused(tmp_path: Path) -> None:
    write_safetensors(tmp_path, tensors(buffers()))
    write_config(tmp_path, hidden_act="gelu")
    with pytest.raises(WeightsError, match='hidden_act="gelu": silu or swish'):
        verify(str(tmp_path))


def test_no_file_at_all(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"none\.gguf: no such file"):
        buffer(str(tmp_path / "none.gguf"), "embedding", DIMS["embedding"])


def test_a_file_that_changed_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    for seed in (0, 1):
        made = buffers(seed)
        path.unlink(missing_ok=True)
        write_gguf(path, tensors(made))
        np.testing.assert_array_equal(buffer(str(path), "embedding", DIMS["embedding"]), made["embedding"])
