from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runner.profile import names

FIELDS: dict[str, Any] = {
    "model": "llama3_8b",
    "gpu": "h100",
    "phase": "decode",
    "kernel": "kv_quant",
    "variant": "q8",
    "shape": "long_ctx-B1-T4096",
    "commit": "0123456789abcdef0123456789abcdef01234567",
}


def test_names_are_built_in_the_documented_order() -> None:
    assert names.range_name("decode", "kv_quant", "q8") == "decode/kv_quant/q8"
    assert names.report_name(**FIELDS) == "llama3_8b_h100_decode_kv_quant_q8_long_ctx-B1-T4096_0123456789"
    assert names.report_name(**FIELDS, dirty=True).endswith("_0123456789-dirty")
    assert names.report_name(**{**FIELDS, "commit": ""}).endswith("_nocommit")


def test_points_of_a_sweep_differ_in_their_shape_label() -> None:
    assert names.shape_label("long_ctx", {"B": 1, "T": 4096}) == "long_ctx-B1-T4096"
    assert names.shape_label("long_ctx", {"B": 1, "T": 8192}) != names.shape_label("long_ctx", {"B": 1, "T": 4096})


def test_replaced_characters_do_not_make_two_variants_one() -> None:
    made = {names.report_name(**{**FIELDS, "variant": v}) for v in ("q8/a", "q8 a", "q8-a", "q8:a", "q8%a")}
    assert len(made) == 5


@given(st.lists(st.text(max_size=300), min_size=2, max_size=6, unique=True), st.booleans())
def test_any_text_gives_safe_short_and_different_names(variants: list[str], dirty: bool) -> None:
    made = [names.report_name(**{**FIELDS, "variant": v}, dirty=dirty) for v in variants]
    assert len(set(made)) == len(variants)
    for name in made:
        assert re.fullmatch(r"[A-Za-z0-9._-]+", name)
        assert len(name) <= names.LONGEST
