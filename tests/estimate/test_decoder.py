"""The decoder of this repository in the words of an estimate."""

from __future__ import annotations

import dataclasses

import pytest

from runner.config.errors import ConfigError
from runner.config.schema import Model
from runner.estimate import decoder, precision
from tests.estimate.models import load


@pytest.mark.parametrize(
    ("name", "word", "bits"),
    [
        ("fp32", ("fp32", 0), 32),
        ("bf16", ("bf16", 0), 16),
        ("w8a16", ("w8a16", 128), 8.25),
        ("w4a16", ("w4a16", 128), 4.25),
        ("int8_g256_s32", ("w8a16", 256), 8.125),
        ("int4_g128_s32", ("w4a16", 128), 4.25),
    ],
)
def test_weights_have_a_word_and_the_same_bits(name: str, word: tuple[str, int], bits: float) -> None:
    """A scale of 32 bits for a group: 8 + 32 / 128 = 8.25 bits."""
    assert decoder.weights_word(precision.of(name)) == word
    assert precision.of(name).bits == bits


@pytest.mark.parametrize(
    "name", ["fp8", "int8", "int4_g128", "awq", "fp16", "int3_g128_s32", "int8_g64_s32", "int4_g32_s32"]
)
def test_other_weights_are_refused_with_those_that_there_are(name: str) -> None:
    with pytest.raises(ConfigError, match=r"is none of those that kernel=mini_llm has: float32 .*int8_g<group>_s32"):
        decoder.weights_word(precision.of(name))


@pytest.mark.parametrize(
    ("name", "word"),
    [("fp32", "fp32"), ("bf16", "bf16"), ("int8", "int8"), ("int8_g64_s32", "int8"), ("fp8", "fp8")],
)
def test_the_cache_has_a_word(name: str, word: str) -> None:
    assert decoder.kv_word(precision.of(name)) == word


def test_other_caches_are_refused() -> None:
    with pytest.raises(ConfigError, match="int4_g128 is none of those"):
        decoder.kv_word(precision.of("int4_g128"))


@pytest.mark.parametrize(
    ("key", "value"),
    [("experts", 8), ("kv_lora_rank", 512), ("sliding_window", 128), ("gated_mlp", False), ("qk_norm", True),
     ("biases", True), ("rope_scaling", "yarn")],
)  # fmt: skip
def test_a_model_that_it_does_not_run_is_refused_by_its_key(key: str, value: int | str) -> None:
    model = Model("toy", layers=2, hidden=64, heads=4, kv_heads=2, head_dim=16, intermediate=128, vocab=256)
    decoder.check_model(model, "this")
    setattr(model, key, value)
    with pytest.raises(ConfigError, match=rf"^model\.{key}={value}: must be [\w ]+ with this, which serves what"):
        decoder.check_model(model, "this")


def test_gpt2_is_run_whole_or_not_at_all() -> None:
    decoder.check_model(load("gpt2_small"), "this")
    with pytest.raises(ConfigError, match=r"^model\.biases=False: must be true with this"):
        decoder.check_model(dataclasses.replace(load("gpt2_small"), biases=False), "this")
    with pytest.raises(ConfigError, match=r"^model\.gated_mlp=True: must be false with this"):
        decoder.check_model(dataclasses.replace(load("gpt2_small"), gated_mlp=True), "this")
