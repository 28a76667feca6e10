"""Models in GGUF files are counted from what the files hold; broken and hostile files are refused by name."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.config.errors import ConfigError
from runner.estimate import architecture, gguf_file, gguf_header, params
from tests.estimate.ggufs import Gguf, llama, text


def write(folder: Path, content: Gguf | bytes) -> Path:
    path = folder / "model.gguf"
    path.write_bytes(content.bytes() if isinstance(content, Gguf) else content)
    return path


def refused(folder: Path, content: Gguf | bytes) -> str:
    """What is said of the file, without its path."""
    path = write(folder, content)
    with pytest.raises(ConfigError) as error:
        gguf_header.read(path)
    message = str(error.value)
    assert message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


def test_a_dense_model_is_counted_as_its_tensors_are(tmp_path: Path) -> None:
    model = gguf_header.read(write(tmp_path, llama()))
    assert (model.name, model.layers, model.hidden, model.heads, model.kv_heads) == ("model", 2, 32, 4, 2)
    assert (model.head_dim, model.intermediate, model.vocab) == (8, 64, 96)
    assert not (model.tied_embeddings or model.qkv_bias or model.qk_norm or model.biases)
    layer = 2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 64 + 2 * 32
    assert model.params_total == 2 * 96 * 32 + 2 * layer + 32
    assert params.count(architecture.of(model)).total == model.params_total
    assert len(model.notes) == 1 and model.notes[0].startswith(f"stored in {4 * model.params_total:,} bytes (F32")


def test_tied_biased_and_normed_models_say_so_by_their_tensors(tmp_path: Path) -> None:
    made = llama()
    del made.tensors["output.weight"]
    for number in range(2):
        made.tensors |= {f"blk.{number}.attn_{name}.bias": (size,) for name, size in (("q", 32), ("k", 16), ("v", 16))}
        made.tensors |= {f"blk.{number}.attn_{name}_norm.weight": (8,) for name in ("q", "k")}
    made.tensors["rope_freqs.weight"] = (4,)
    model = gguf_header.read(write(tmp_path, made))
    assert model.tied_embeddings and model.qkv_bias and model.qk_norm and not model.out_bias
    assert params.count(architecture.of(model)).total == model.params_total
    assert len(model.notes) == 1


def test_gpt2_has_positions_and_biases_everywhere(tmp_path: Path) -> None:
    tensors: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (32, 96),
        "position_embd.weight": (32, 64),
        "output_norm.weight": (32,),
        "output_norm.bias": (32,),
    }
    shapes = {"attn_qkv": (32, 96), "attn_output": (32, 32), "ffn_up": (32, 128), "ffn_down": (128, 32)}
    for name, shape in shapes.items():
        tensors |= {f"blk.0.{name}.weight": shape, f"blk.0.{name}.bias": shape[1:]}
    for name in ("attn_norm", "ffn_norm"):
        tensors |= {f"blk.0.{name}.weight": (32,), f"blk.0.{name}.bias": (32,)}
    keys = {"general.architecture": "gpt2", "gpt2.block_count": 1, "gpt2.embedding_length": 32}
    keys |= {"gpt2.attention.head_count": 4, "gpt2.feed_forward_length": 128}
    model = gguf_header.read(write(tmp_path, Gguf(keys, tensors)))
    assert model.biases and model.tied_embeddings and not model.gated_mlp and model.max_positions == 64
    assert params.count(architecture.of(model)).total == model.params_total


def test_a_mixture_has_routers_from_its_first_routed_layer_on(tmp_path: Path) -> None:
    made = llama()
    made.keys = {key.replace("llama.", "qwen2moe."): item for key, item in made.keys.items()}
    made.keys |= {"general.architecture": "qwen2moe", "qwen2moe.expert_count": 4, "qwen2moe.expert_used_count": 2}
    made.keys["qwen2moe.expert_feed_forward_length"] = 16
    for name in ("gate", "up", "down"):
        del made.tensors[f"blk.1.ffn_{name}.weight"]
        shape = (16, 32) if name == "down" else (32, 16)
        shared = (32, 32)
        made.tensors |= {f"blk.1.ffn_{name}_exps.weight": (*shape, 4), f"blk.1.ffn_{name}_shexp.weight": shared}
    made.tensors |= {"blk.1.ffn_gate_inp.weight": (32, 4), "blk.1.ffn_gate_inp_shexp.weight": (32,)}
    model = gguf_header.read(write(tmp_path, made))
    assert (model.experts, model.top_k, model.moe_intermediate) == (4, 2, 16)
    assert (model.dense_layers, model.shared_experts, model.shared_gate) == (1, 2, True)
    assert params.count(architecture.of(model)).total == model.params_total
    assert len(model.notes) == 1


def test_bytes_by_type_follow_the_blocks(tmp_path: Path) -> None:
    made = llama(hidden=256, heads=4, kv_heads=2, width=512, vocab=96)
    made.types = {"blk.0.attn_q.weight": "Q4_K", "blk.1.attn_q.weight": "Q6_K", "output.weight": "Q8_0"}
    made.types["token_embd.weight"] = "F16"
    stored = gguf_header.tensor_bytes(gguf_file.load(write(tmp_path, made)))
    assert stored["Q4_K"] * 8 == 4.5 * 256 * 256
    assert stored["Q6_K"] * 8 == 6.5625 * 256 * 256
    assert stored["Q8_0"] * 8 == 8.5 * 256 * 96
    assert stored["F16"] == 2 * 256 * 96


def test_what_is_not_understood_is_noted(tmp_path: Path) -> None:
    made = llama()
    made.keys |= {"llama.attention.sliding_window": 16, "tokenizer.ggml.tokens": ["a", "b"]}
    made.tensors["blk.0.extra.weight"] = (32, 2)
    notes = gguf_header.read(write(tmp_path, made)).notes
    assert notes[1].startswith("the tokenizer has 2 words, the table 96 rows")
    assert notes[2].startswith("llama.attention.sliding_window=16 was not understood")
    assert notes[3].startswith("the tensors hold") and "something in the file was not understood" in notes[3]


def test_a_file_of_unknown_keys_is_refused(tmp_path: Path) -> None:
    made = llama()
    made.keys |= {f"llama.key_{number}": number for number in range(50)}
    assert refused(tmp_path, made) == "llama.key_0=0: at most 40 keys not understood"


def test_a_header_alone_is_enough_and_noted(tmp_path: Path) -> None:
    model = gguf_header.read(write(tmp_path, llama().header()))
    assert model.notes[1] == "the file ends with its header: its tensors are not there"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"general.architecture": "mamba"}, "general.architecture=mamba: did you mean 'llama'?"),
        ({"general.architecture": 3}, "general.architecture=3: one of llama"),
        ({"general.architecture": None}, "general.architecture is missing: one of llama"),
        ({"llama.block_count": None}, "llama.block_count is missing: a whole number, 1 or more"),
        ({"llama.block_count": 0}, "llama.block_count=0: a whole number from 1 to"),
        ({"llama.block_count": 2**31 - 1}, "as read, model.layers=2147483647: at most 1024"),
        ({"llama.block_count": 2.0}, "llama.block_count=2.0: a whole number from 1 to"),
        ({"llama.block_count": "2"}, "llama.block_count='2': a whole number from 1 to"),
        ({"llama.attention.head_count": 5}, "llama.attention.head_count_kv=2: a divisor of head_count=5"),
        ({"llama.attention.head_count": 6}, "llama.attention.head_count=6: a divisor of embedding_length=32"),
        ({"llama.feed_forward_length": [64, 32]}, "llama.feed_forward_length=[64, 32]: the same in every layer"),
        ({"llama.attention.value_length": 16}, "llama.attention.value_length=16: as key_length, 8"),
        ({"llama.embedding_length": 64}, "tensor token_embd.weight=(32, 96): llama.embedding_length=64 by words"),
        ({"llama.expert_count": 4}, "llama.expert_used_count is missing"),
        ({"general.alignment": 0}, "key general.alignment: a number from 1 to"),
    ],
)
def test_bad_figures_are_refused_by_key_and_value(tmp_path: Path, keys: dict[str, Any], message: str) -> None:
    made = llama()
    made.keys = {key: item for key, item in (made.keys | keys).items() if item is not None}
    assert refused(tmp_path, made).startswith(message)


def head(tensors: int = 0, keys: int = 0, rest: bytes = b"", version: int = 3) -> bytes:
    return struct.pack("<4sIQQ", b"GGUF", version, tensors, keys) + rest


HUGE = 2**63


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the start: 4 bytes are needed, 0 are left: the file is cut"),
        (b"GGML" + bytes(40), "the start: the first four bytes are not GGUF"),
        (head(version=1), "the start: version 1: 2 or 3 is read"),
        (struct.pack(">4sIQQ", b"GGUF", 3, 0, 0), "the start: big-endian"),
        (head(tensors=HUGE), f"the start: {HUGE} tensors: at most 65536"),
        (head(keys=HUGE), f"the start: {HUGE} keys: at most 4096"),
        (head(keys=1), "key number 1 of 1: 8 bytes are needed, 0 are left"),
        (head(keys=1, rest=struct.pack("<Q", HUGE)), f"key number 1 of 1: a name of {HUGE} bytes: 1 to 1024"),
        (head(keys=1, rest=text("a") + struct.pack("<I", 13)), "key a: value type 13: 0 to 12"),
        (head(keys=1, rest=text("a") + struct.pack("<IQ", 8, HUGE)), f"key a: {HUGE} bytes are needed, 0 are left"),
        (head(keys=1, rest=text("a") + struct.pack("<IIQ", 9, 4, HUGE)), f"key a: {4 * HUGE} bytes are needed"),
        (head(keys=1, rest=text("a") + struct.pack("<IIQ", 9, 8, HUGE)), f"key a: array entries up to here: {HUGE}"),
        (
            head(keys=1, rest=text("a") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 9),
            "key a: arrays nested more",
        ),
        (head(keys=2, rest=(text("a") + struct.pack("<II", 4, 1)) * 2), "key number 2 of 2: key a stands there twice"),
        (head(tensors=1, rest=text("t") + struct.pack("<I", 9)), "tensor t: 9 dimensions: 1 to 4"),
        (
            head(tensors=1, rest=text("t") + struct.pack("<I2Q", 2, HUGE, HUGE)),
            f"tensor t: shape ({HUGE}, {HUGE}): 1 to",
        ),
        (head(tensors=1, rest=text("t") + struct.pack("<I2Q", 2, 0, 4)), "tensor t: shape (0, 4): 1 to"),
        (head(tensors=1, rest=text("t") + struct.pack("<IQIQ", 1, 4, 4, 0)), "tensor t: type number 4: one of 0 (F32)"),
        (head(tensors=1, rest=text("t") + struct.pack("<IQIQ", 1, 40, 2, 0)), "tensor t: rows of 40 elements: Q4_0"),
        (
            head(tensors=1, rest=text("t") + struct.pack("<IQIQ", 1, 4, 0, HUGE) + bytes(99)),
            "the tensors' data: reaches",
        ),
        (head(tensors=1, rest=text("t") + struct.pack("<IQIQ", 1, 4, 0, 0)), "general.architecture is missing"),
    ],
)
def test_hostile_headers_are_refused_where_they_go_wrong(tmp_path: Path, content: bytes, message: str) -> None:
    assert refused(tmp_path, content).startswith(message)


def test_a_vocabulary_file_is_no_model(tmp_path: Path) -> None:
    made = llama()
    made.tensors = {}
    assert refused(tmp_path, made).startswith("no tensor token_embd.weight")


def test_a_file_cut_anywhere_is_refused_or_a_header(tmp_path: Path) -> None:
    made = llama(vocab=4)
    whole, header = made.bytes(), len(made.header())
    for length in [*range(0, header - 31, 61), header + 1, len(whole) - 32]:
        message = refused(tmp_path, whole[:length])
        assert "the file is cut" in message or "it is cut" in message


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.gguf: no such file"):
        gguf_header.read(tmp_path / "nowhere.gguf")


def test_control_characters_of_a_file_reach_no_message(tmp_path: Path) -> None:
    made = llama()
    made.keys["general.architecture"] = "\x1b[31mred"
    assert "\x1b" not in refused(tmp_path, made)


def test_large_arrays_take_no_memory(tmp_path: Path) -> None:
    entries = 8_000_000
    content = head(keys=1, rest=text("a") + struct.pack("<IIQ", 9, 4, entries) + bytes(4 * entries))
    path = write(tmp_path, content)
    tracemalloc.start()
    header = gguf_file.load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert header.values["a"] == gguf_file.Counted(entries)
    assert peak < 1_000_000


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_changed_bytes_are_read_or_refused_and_nothing_else(tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(llama(layers=1, vocab=4).bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, 1400))] = data.draw(st.integers(0, 255))
    path = write(tmp_path, bytes(content))
    try:
        assert gguf_header.read(path).layers >= 1
    except ConfigError as error:
        assert str(error).startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("keys", "theta", "scaling", "eps"),
    [
        ({}, 1e4, "", 1e-5),
        ({"llama.rope.freq_base": 5e5, "llama.attention.layer_norm_rms_epsilon": 1e-6}, 5e5, "", 1e-6),
        ({"llama.rope.scaling.type": "none", "llama.rope.dimension_count": 8}, 1e4, "", 1e-5),
        ({"llama.rope.scaling.type": "yarn"}, 1e4, "yarn", 1e-5),
        ({"llama.rope.scale_linear": 4.0}, 1e4, "linear", 1e-5),
        ({"llama.rope.dimension_count": 4}, 1e4, "partial", 1e-5),
    ],
)
def test_positions_and_norms(tmp_path: Path, keys: dict[str, Any], theta: float, scaling: str, eps: float) -> None:
    made = llama()
    made.keys |= keys
    model = gguf_header.read(write(tmp_path, made))
    assert (model.rope_theta, model.rope_scaling, model.norm_eps) == (theta, scaling, eps)


@pytest.mark.parametrize(
    ("keys", "factor"),
    [
        ({}, 1.0),
        ({"llama.rope.scale_linear": 4.0}, 4.0),
        ({"llama.rope.scaling.factor": 4.0}, 4.0),
        ({"llama.rope.scaling.type": "none", "llama.rope.scaling.factor": 4.0}, 1.0),
        ({"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 2.5}, 2.5),
        ({"llama.rope.scaling.type": "linear", "llama.rope.scale_linear": 4.0}, 4.0),
    ],
)
def test_linear_positions_have_a_factor(tmp_path: Path, keys: dict[str, Any], factor: float) -> None:
    made = llama()
    made.keys |= keys
    assert gguf_header.read(write(tmp_path, made)).rope_factor == factor


def test_factors_of_the_frequencies_are_those_of_llama_3_1(tmp_path: Path) -> None:
    made = llama()
    made.tensors["rope_freqs.weight"] = (4,)
    assert gguf_header.read(write(tmp_path, made)).rope_scaling == "llama3"


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"llama.rope.freq_base": 0.0}, "llama.rope.freq_base=0.0: a number above 0"),
        (
            {"llama.attention.layer_norm_rms_epsilon": "x"},
            "llama.attention.layer_norm_rms_epsilon='x': a number above 0",
        ),
        ({"llama.rope.scaling.type": 5}, "llama.rope.scaling.type=5: none, linear, yarn or longrope"),
    ],
)
def test_positions_that_cannot_be(tmp_path: Path, keys: dict[str, Any], said: str) -> None:
    made = llama()
    made.keys |= keys
    path = write(tmp_path, made)
    with pytest.raises(ConfigError) as refused:
        gguf_header.read(path)
    assert str(refused.value) == f"{path}: {said}"
