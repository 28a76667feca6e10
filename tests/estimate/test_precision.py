"""Bits of each format, by its block; names that there are, and those there are not."""

from __future__ import annotations

import pytest

from runner.config.errors import ConfigError
from runner.estimate import precision

BITS = {
    "float32": 32,
    "bfloat16": 16,
    "float16": 16,
    "float8": 8,
    "int8": 8,
    "int4_g128": 4.125,
    "int4_g64": 4.25,
    "int4_g32": 4.5,
    "int4_g128_zp": 4.15625,
    "int4_g128_zp16": 4.25,
    "int4_g32_zp16": 5.0,
    "int4_g128_s32": 4.25,
    "int8_g128": 8.125,
    "int3_g128": 3.125,
    "q4_0": 4.5,
    "q4_1": 5.0,
    "q5_0": 5.5,
    "q5_1": 6.0,
    "q8_0": 8.5,
    "iq4_nl": 4.5,
    "q2_k": 2.625,
    "q3_k": 3.4375,
    "q4_k": 4.5,
    "q5_k": 5.5,
    "q6_k": 6.5625,
    "iq4_xs": 4.25,
    "mxfp4": 4.25,
    "nvfp4": 4.5,
}


@pytest.mark.parametrize("name", BITS)
def test_bits_with_scales_and_zeros(name: str) -> None:
    assert precision.of(name).bits == BITS[name]


def test_every_name_is_understood() -> None:
    for name in precision.NAMES:
        assert precision.of(name) == precision.of(name.upper())
        assert precision.of(precision.of(name).name) == precision.of(name)


def test_aliases_give_what_they_stand_for() -> None:
    assert precision.of("fp8") == precision.of("float8")
    assert precision.of("awq") == precision.of("gptq") == precision.of("int4_g128_zp") == precision.of("int4_g128_zp4")
    assert precision.of("awq").bits == pytest.approx(4.156, abs=5e-4)


def test_weight_only_formats_compute_in_16_bits_the_others_in_their_own() -> None:
    for name in ("int8", "float8_w8a16", "int4_g128", "awq", "q4_k", "mxfp4", "nvfp4"):
        assert precision.of(name).compute == "float16"
    own = {
        "float8": "float8",
        "int8_w8a8": "int8",
        "nvfp4_w4a4": "float4",
        "bfloat16": "bfloat16",
        "float32": "float32",
    }
    for name, compute in own.items():
        assert precision.of(name).compute == compute


def test_a_group_of_128_adds_three_percent_to_int4() -> None:
    assert precision.of("int4_g128").bits / 4 - 1 == 0.03125
    assert 16 / precision.of("int4_g128").bits == pytest.approx(3.879, abs=5e-4)
    assert 16 / precision.of("int4_g128_s32").bits == pytest.approx(3.76, abs=5e-3)


@pytest.mark.parametrize("name", ["int4", "int9_g128", "int1_g128", "int4_g0", "int4_g", "int4_g128_zp3", "q4_k_m", ""])
def test_an_unknown_name_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(ConfigError, match=f"precision '{name}': .*int4_g128"):
        precision.of(name)


def test_a_slip_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match="did you mean 'bfloat16'"):
        precision.of("bflaot16")
