"""Published configs give the shipped models, and every key is understood, known to be irrelevant, noted or refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from runner.config.errors import ConfigError
from runner.config.schema import Model
from runner.estimate import architecture, hf, params, precision
from tests.estimate.models import load

CONFIGS = Path(__file__).parents[1] / "data" / "hf_configs"
PUBLISHED = {
    "Meta-Llama-3.1-8B": "llama3_1_8b",
    "Meta-Llama-3.1-70B": "llama3_1_70b",
    "Qwen3-8B": "qwen3_8b",
    "Mixtral-8x7B-v0.1": "mixtral_8x7b",
    "DeepSeek-V3": "deepseek_v3",
}
ABOUT = {"name", "title", "source", "params_total", "config_json", "weights", "notes"}
"""Fields that say nothing about the architecture."""
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_hidden_layers": 3,
    "num_key_value_heads": 2,
    "tie_word_embeddings": False,
    "vocab_size": 100,
}
GPT2 = {"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024, "vocab_size": 50257}
QWEN3_MOE = {
    **LLAMA,
    "model_type": "qwen3_moe",
    "head_dim": 32,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
}
GPT_OSS = {
    "model_type": "gpt_oss",
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "head_dim": 64,
    "num_attention_heads": 64,
    "num_hidden_layers": 36,
    "num_key_value_heads": 8,
    "num_local_experts": 128,
    "num_experts_per_tok": 4,
    "experts_per_token": 4,
    "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 18,
    "attention_bias": True,
    "rms_norm_eps": 1e-5,
    "rope_theta": 150_000,
    "rope_scaling": {"rope_type": "yarn", "factor": 32.0},
    "tie_word_embeddings": False,
    "vocab_size": 201088,
}
DEEPSEEK_V2_LITE = {
    "model_type": "deepseek_v2",
    "hidden_size": 2048,
    "intermediate_size": 10944,
    "num_attention_heads": 16,
    "num_hidden_layers": 27,
    "num_key_value_heads": 16,
    "q_lora_rank": None,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 64,
    "n_shared_experts": 2,
    "num_experts_per_tok": 6,
    "moe_intermediate_size": 1408,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "topk_method": "greedy",
    "tie_word_embeddings": False,
    "vocab_size": 102400,
}
QWEN2_MOE = {
    "model_type": "qwen2_moe",
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "num_attention_heads": 16,
    "num_hidden_layers": 24,
    "num_key_value_heads": 16,
    "num_experts": 60,
    "num_experts_per_tok": 4,
    "moe_intermediate_size": 1408,
    "shared_expert_intermediate_size": 5632,
    "decoder_sparse_step": 1,
    "sliding_window": 32768,
    "max_window_layers": 21,
    "use_sliding_window": False,
    "tie_word_embeddings": False,
    "vocab_size": 151936,
}


def write(folder: Path, text: str | bytes | dict[str, Any]) -> Path:
    path = folder / "config.json"
    if isinstance(text, dict):
        text = json.dumps(text)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def total(model: Model) -> int:
    return params.count(architecture.of(model)).total


def figures(model: Model) -> dict[str, Any]:
    return {key: value for key, value in dataclasses.asdict(model).items() if key not in ABOUT}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_configs_give_the_shipped_models(name: str) -> None:
    assert figures(hf.read(CONFIGS / f"{name}.json")) == figures(load(PUBLISHED[name]))


def test_what_a_published_config_leaves_open_is_noted() -> None:
    notes = hf.read(CONFIGS / "DeepSeek-V3.json").notes
    assert len(notes) == 2
    assert notes[0].startswith("num_nextn_predict_layers=1")
    assert "estimate.weights=float8" in notes[1]
    assert hf.read(CONFIGS / "Qwen3-8B.json").notes == []


def test_gpt2_has_names_of_its_own(tmp_path: Path) -> None:
    model = hf.read(write(tmp_path, GPT2))
    assert figures(model) == figures(load("gpt2_small"))
    assert model.notes == []


def test_gpt_oss_alternates_windows_and_has_sinks(tmp_path: Path) -> None:
    assert figures(hf.read(write(tmp_path, GPT_OSS))) == figures(load("gpt_oss_120b"))


def test_mixtures_give_the_published_totals(tmp_path: Path) -> None:
    assert total(hf.read(write(tmp_path, DEEPSEEK_V2_LITE))) == 15_706_484_224
    assert total(hf.read(write(tmp_path, QWEN2_MOE))) == 14_315_784_192


def test_an_explicit_head_size_wins(tmp_path: Path) -> None:
    assert hf.read(write(tmp_path, LLAMA)).head_dim == 16
    assert hf.read(write(tmp_path, {**LLAMA, "head_dim": 32})).head_dim == 32


def test_biases_of_llama_reach_queries_out_and_mlp(tmp_path: Path) -> None:
    model = hf.read(write(tmp_path, {**LLAMA, "attention_bias": True, "mlp_bias": True}))
    assert model.qkv_bias and model.out_bias and model.mlp_bias and not model.biases


def test_mistral_windows_every_layer(tmp_path: Path) -> None:
    mistral = {**LLAMA, "model_type": "mistral"}
    layers = architecture.of(hf.read(write(tmp_path, {**mistral, "sliding_window": 4096}))).layers
    assert [layer.attention.window for layer in layers] == [4096] * 3
    assert hf.read(write(tmp_path, {**mistral, "sliding_window": None})).sliding_window == 0


def test_qwen_windows_the_late_layers_if_at_all(tmp_path: Path) -> None:
    qwen = {**LLAMA, "model_type": "qwen2", "sliding_window": 8, "max_window_layers": 1}
    assert hf.read(write(tmp_path, {**qwen, "use_sliding_window": True})).window_layers == [1, 2]
    assert hf.read(write(tmp_path, {**qwen, "use_sliding_window": False})).sliding_window == 0
    beyond = {**qwen, "use_sliding_window": True, "max_window_layers": 3}
    assert hf.read(write(tmp_path, beyond)).sliding_window == 0
    listed = ["sliding_attention", "full_attention", "full_attention"]
    assert hf.read(write(tmp_path, {**qwen, "use_sliding_window": True, "layer_types": listed})).window_layers == [0]


def test_a_folder_stands_for_its_config(tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    path = write(folder, LLAMA)
    model = hf.read(folder)
    assert (model.name, model.config_json, model.source) == ("my-model", str(path), "config.json of type llama")


def test_absent_keys_with_a_known_default_are_noted(tmp_path: Path) -> None:
    slim = {key: value for key, value in LLAMA.items() if key not in ("tie_word_embeddings", "num_key_value_heads")}
    model = hf.read(write(tmp_path, slim))
    assert (model.kv_heads, model.tied_embeddings) == (4, False)
    assert [note.split()[0] for note in model.notes] == ["num_key_value_heads", "tie_word_embeddings"]


def test_a_name_of_its_own_is_read_by_its_class(tmp_path: Path) -> None:
    model = hf.read(write(tmp_path, {**LLAMA, "model_type": "my_llama", "architectures": ["LlamaForCausalLM"]}))
    assert model.layers == 3
    assert [note.split(", whose")[0] for note in model.notes] == ["model_type=my_llama is not known: read as llama"]


def test_a_key_that_is_not_understood_is_noted(tmp_path: Path) -> None:
    model = hf.read(write(tmp_path, {**LLAMA, "memory_layers": 4, "rope_theta": 1e4, "other": None}))
    assert model.notes == ['"memory_layers": 4 was not understood: what it adds is not in the figures']


@pytest.mark.parametrize(
    ("section", "stored"),
    [
        ({"quant_method": "fp8"}, "float8"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "int4_g128_zp"),
        ({"quant_method": "gptq", "bits": 8, "group_size": 64}, "int8_g64_zp"),
        ({"quant_method": "compressed-tensors", "format": "int-quantized"}, "int8_w8a8"),
        ({"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"}, "nvfp4"),
    ],
)
def test_a_quantised_file_says_how_to_estimate_it_as_stored(
    tmp_path: Path, section: dict[str, Any], stored: str
) -> None:
    model = hf.read(write(tmp_path, {**LLAMA, "quantization_config": section}))
    assert f"estimate.weights={stored} " in model.notes[0]
    assert precision.of(stored).bits > 0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model_type": "rwkv"}, 'model_type="rwkv": known: llama, mistral'),
        ({"model_type": "llama4"}, "model_type=\"llama4\": did you mean 'llama'?"),
        ({"model_type": None}, "model_type is missing: one of llama"),
        ({"architectures": ["Qwen2ForCausalLM"]}, 'architectures=["Qwen2ForCausalLM"]: the class of model_type=llama'),
        ({"hidden_size": None}, "hidden_size is missing: a whole number, 1 or more"),
        ({"hidden_size": "64"}, 'hidden_size="64": a whole number from 1 to'),
        ({"hidden_size": 64.0}, "hidden_size=64.0: a whole number from 1 to"),
        ({"hidden_size": True}, "hidden_size=true: a whole number from 1 to"),
        ({"num_hidden_layers": -3}, "num_hidden_layers=-3: a whole number from 1 to"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers=1000000000: a whole number from 1 to 1024"),
        ({"vocab_size": 10**30}, "vocab_size=1000000000000000000000000000000: a whole number from 1 to"),
        ({"num_attention_heads": 5, "num_key_value_heads": 5}, "num_attention_heads=5: a divisor of hidden_size=64"),
        ({"num_key_value_heads": 3}, "num_key_value_heads=3: a divisor of num_attention_heads=4"),
        ({"tie_word_embeddings": "no"}, 'tie_word_embeddings="no": true or false'),
        ({"is_encoder_decoder": True}, "is_encoder_decoder=true: false: only decoders"),
        (
            {"model_type": "llava", "text_config": {"model_type": "llama"}},
            "text_config: the decoder of a multimodal model",
        ),
        ({"quantization_config": {"quant_method": "hqq"}}, "quantization_config.quant_method='hqq': one of fp8"),
        ({"quantization_config": {"bits": 4}}, "quantization_config.quant_method is missing: one of fp8"),
        ({"quantization_config": "fp8"}, 'quantization_config="fp8": an object with quant_method'),
        ({"quantization_config": {"quant_method": "awq", "bits": 5}}, "quantization_config.bits='5': 2, 3, 4 or 8"),
        (
            {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": -1}},
            "quantization_config.group_size='-1': 1 to 65536",
        ),
        (
            {"quantization_config": {"quant_method": "compressed-tensors", "format": "dense"}},
            "quantization_config.format='dense': one of float-quantized",
        ),
    ],
)
def test_bad_figures_are_refused_by_file_key_and_value(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    path = write(tmp_path, {**LLAMA, **changed})
    with pytest.raises(ConfigError) as refused:
        hf.read(path)
    assert str(refused.value).startswith(f"{path}: {message}")


@pytest.mark.parametrize(
    ("base", "changed", "message"),
    [
        (QWEN3_MOE, {"decoder_sparse_step": 2}, "decoder_sparse_step=2: 1: only mixtures"),
        (QWEN3_MOE, {"mlp_only_layers": [1]}, "mlp_only_layers=[1]: the first layers"),
        (QWEN3_MOE, {"use_sliding_window": True}, "use_sliding_window=true: false"),
        (QWEN3_MOE, {"head_dim": None}, "head_dim is missing"),
        (QWEN3_MOE, {"num_experts_per_tok": 9}, "as read, model.top_k=9: 1 to model.experts=8"),
        (QWEN3_MOE, {"layer_types": ["linear_attention"]}, 'layer_types=["linear_attention"]: full_attention in every'),
        (QWEN2_MOE, {"shared_expert_intermediate_size": 5000}, "shared_expert_intermediate_size=5000: a multiple of"),
        (GPT_OSS, {"layer_types": ["full_attention"]}, 'layer_types=["full_attention"]: full_attention or sliding'),
        (GPT_OSS, {"experts_per_token": 5}, "experts_per_token=5: 4, as num_experts_per_tok says"),
        (DEEPSEEK_V2_LITE, {"moe_layer_freq": 2}, "moe_layer_freq=2: 1: only mixtures"),
        (DEEPSEEK_V2_LITE, {"attention_bias": True}, "attention_bias=true: false"),
        (DEEPSEEK_V2_LITE, {"kv_lora_rank": None}, "kv_lora_rank is missing"),
        (GPT2, {"n_head": 7}, "n_head=7: a divisor of n_embd=768"),
        (GPT2, {"n_layer": None}, "n_layer or num_hidden_layers is missing"),
        ({**LLAMA, "model_type": "mistral"}, {}, "sliding_window is missing: null, or"),
        ({**LLAMA, "model_type": "qwen2"}, {"layer_types": ["linear_attention"] * 3}, "layer_types="),
    ],
)
def test_each_type_refuses_what_it_cannot_count(
    tmp_path: Path, base: dict[str, Any], changed: dict[str, Any], message: str
) -> None:
    path = write(tmp_path, {**base, **changed})
    with pytest.raises(ConfigError) as refused:
        hf.read(path)
    assert str(refused.value).startswith(f"{path}: {message}")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a config.json: Expecting value"),
        (b'{"model_type": "llama", ', "not a config.json: Expecting property name"),
        (b"\xff\xfe\x00", "not a config.json: "),
        (b"[1, 2]", "not a config.json: a JSON object at the top, not [1, 2]"),
        (b'{"a": 1, "b": 2, "a": 3}', 'not a config.json: the key "a" stands there twice'),
        (b'{"a": ' + b"9" * 5000 + b"}", "not a config.json: Exceeds the limit"),
        (b'{"a": ' + b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b" " * (2 << 20), "larger than 1048576 bytes"),
    ],
)
def test_what_is_no_config_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(ConfigError) as refused:
        hf.read(path)
    assert str(refused.value).startswith(f"{path}: {message}")


def test_a_file_of_unknown_keys_is_no_config(tmp_path: Path) -> None:
    path = write(tmp_path, {**LLAMA, **{f"key_{number}": number for number in range(10_000)}})
    with pytest.raises(ConfigError, match=r"key_0=0: at most 40 keys that are not understood; 10000 stand"):
        hf.read(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.json: no such file"):
        hf.read(tmp_path / "nowhere.json")


def test_messages_hold_no_control_characters_and_stay_short(tmp_path: Path) -> None:
    path = write(tmp_path, {**LLAMA, "hidden_size": "\x1b[31m" + "x" * 10_000})
    with pytest.raises(ConfigError) as refused:
        hf.read(path)
    assert "\x1b" not in str(refused.value)
    assert len(str(refused.value)) < len(str(path)) + 300


LLAMA3_SCALING = {
    **{"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "original_max_position_embeddings": 8192,
}


@pytest.mark.parametrize(
    ("base", "changed", "theta", "scaling", "eps"),
    [
        (LLAMA, {}, 1e4, "", 1e-6),
        (LLAMA, {"rope_theta": 500_000, "rms_norm_eps": 1e-5}, 5e5, "", 1e-5),
        (LLAMA, {"rope_scaling": {"rope_type": "default"}}, 1e4, "", 1e-6),
        (LLAMA, {"rope_scaling": {"type": "linear", "factor": 2.0}}, 1e4, "linear", 1e-6),
        (LLAMA, {"rope_scaling": {"factor": 2.0}}, 1e4, "linear", 1e-6),
        (LLAMA, {"rope_parameters": {**LLAMA3_SCALING, "rope_theta": 5e5}}, 5e5, "llama3", 1e-6),
        (LLAMA, {"rope_parameters": {"rope_theta": 5e5}, "rope_scaling": LLAMA3_SCALING}, 5e5, "llama3", 1e-6),
        (LLAMA, {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}, 1e6, "", 1e-6),
        (LLAMA, {"partial_rotary_factor": 0.5}, 1e4, "partial", 1e-6),
        (GPT_OSS, {"rms_norm_eps": None, "rope_theta": None}, 150_000.0, "yarn", 1e-5),
        (GPT2, {"layer_norm_epsilon": 1e-4}, 1e4, "", 1e-4),
    ],
)
def test_positions_and_norms(
    tmp_path: Path, base: dict[str, Any], changed: dict[str, Any], theta: float, scaling: str, eps: float
) -> None:
    model = hf.read(write(tmp_path, {**base, **changed}))
    assert (model.rope_theta, model.rope_scaling, model.norm_eps) == (theta, scaling, eps)


def test_factors_of_scaled_positions(tmp_path: Path) -> None:
    model = hf.read(write(tmp_path, {**LLAMA, "rope_scaling": LLAMA3_SCALING}))
    assert (model.rope_factor, model.rope_low_freq_factor, model.rope_high_freq_factor) == (8.0, 1.0, 4.0)
    assert model.rope_original_positions == 8192
    assert hf.read(write(tmp_path, {**LLAMA, "rope_scaling": {"type": "linear", "factor": 2.5}})).rope_factor == 2.5
    assert hf.read(write(tmp_path, LLAMA)).rope_factor == 1.0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        *(
            (
                {"rope_scaling": {name: value for name, value in LLAMA3_SCALING.items() if name != key}},
                f"rope_scaling: {key} is missing: a ",
            )
            for key in LLAMA3_SCALING
            if key != "rope_type"
        ),
        ({"rope_scaling": {"type": "linear"}}, "rope_scaling: factor is missing: a number above 0"),
        (
            {"rope_scaling": {**LLAMA3_SCALING, "high_freq_factor": 1.0}},
            "rope_scaling: high_freq_factor=1.0: more than low_freq_factor=1",
        ),
        ({"rope_scaling": {**LLAMA3_SCALING, "factor": -8}}, "rope_scaling: factor=-8: a number above 0"),
        ({"rope_theta": 0}, "rope_theta=0: a number above 0"),
        ({"rms_norm_eps": True}, "rms_norm_eps=true: a number above 0"),
        ({"rope_scaling": "linear"}, 'rope_scaling="linear": an object with rope_type, or null'),
        ({"rope_scaling": {"rope_type": 5}}, "rope_scaling: rope_type=5: a text"),
        ({"rope_parameters": {"rope_type": "x" * 50}}, 'rope_parameters: rope_type="xxx'),
        ({"rope_parameters": {"rope_theta": "1e4"}}, 'rope_parameters: rope_theta="1e4": a number above 0'),
    ],
)
def test_positions_that_cannot_be(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    path = write(tmp_path, {**LLAMA, **changed})
    with pytest.raises(ConfigError) as refused:
        hf.read(path)
    assert str(refused.value).startswith(f"{path}: {message}")
