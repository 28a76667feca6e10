"""GPT-2's files: transposed projections, biases and shifts of norms, learned positions, and the text they generate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from runner.check.case import Case
from runner.weights import names
from runner.weights.errors import WeightsError
from runner.weights.stacked import buffer, verify
from tests.references.decoder import Decoder, written
from tests.weights import gpt2
from tests.weights.gpt2 import DIMS, HEADS, POSITIONS, VOCAB, D, L, write_config
from tests.weights.models import Floats
from tests.weights.test_generated import generated, planned


def safetensors(folder: Path) -> tuple[Path, dict[str, Floats]]:
    made = gpt2.buffers()
    return gpt2.write_safetensors(folder, made), made


def prefixed(folder: Path) -> tuple[Path, dict[str, Floats]]:
    """As a model with an output projection is saved."""
    made = gpt2.buffers()
    return gpt2.write_safetensors(folder, made, "transformer."), made


def gguf(folder: Path) -> tuple[Path, dict[str, Floats]]:
    return folder / "m.gguf", gpt2.write_gguf(folder / "m.gguf", gpt2.buffers())


def quantised_gguf(folder: Path) -> tuple[Path, dict[str, Floats]]:
    return folder / "m.gguf", gpt2.write_gguf(folder / "m.gguf", gpt2.buffers(), "Q8_0")


FILES: list[Callable[[Path], tuple[Path, dict[str, Floats]]]] = [safetensors, prefixed, gguf, quantised_gguf]


def test_the_names_of_the_tests_are_all() -> None:
    assert tuple(DIMS) == names.BUFFERS


@pytest.mark.parametrize("made", FILES, ids=lambda made: made.__name__)
def test_files_give_the_buffers_that_they_were_made_of(
    tmp_path: Path, made: Callable[[Path], tuple[Path, dict[str, Floats]]]
) -> None:
    path, stored = made(tmp_path)
    verify(str(path))
    for name, dims in DIMS.items():
        np.testing.assert_array_equal(buffer(str(path), name, dims), stored[name], err_msg=name)


@pytest.mark.parametrize("made", FILES, ids=lambda made: made.__name__)
def test_the_text_is_the_models(tmp_path: Path, made: Callable[[Path], tuple[Path, dict[str, Floats]]]) -> None:
    path, stored = made(tmp_path)
    plan = planned(path)
    assert [plan.symbols[name] for name in ("gpt2", "has_bias", "is_tied", "positions", "V")] == [
        1, 1, 1, POSITIONS, VOCAB,
    ]  # fmt: skip
    prompts = Case(plan).input("prompt_ids").tolist()
    texts = [written(Decoder(stored, L, HEADS, HEADS, D, 1e4, 1e-5), prompt, 6)[0] for prompt in prompts]
    assert len({token for text in texts for token in text}) > 3, "a text that says something"
    assert generated(plan, "request")[0] == texts


def test_a_tensor_that_is_not_transposed_is_named(tmp_path: Path) -> None:
    made = gpt2.buffers()
    made["gate_up_weight"] = np.swapaxes(made["gate_up_weight"], 1, 2)
    path = gpt2.write_safetensors(tmp_path, made)
    with pytest.raises(WeightsError, match=r"h\.0\.mlp\.c_fc\.weight: shape \[96, 64\], by the model's .* \[64, 96\]"):
        verify(str(path))


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    path = gpt2.write_safetensors(tmp_path, gpt2.buffers())
    write_config(tmp_path, n_layer=3)
    with pytest.raises(WeightsError, match=r"no tensor h\.2\.attn\.c_attn\.weight: a decoder of GPT-2's kind has one"):
        verify(str(path))


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("activation_function", "gelu", 'activation_function="gelu": gelu_new or gelu_fast or gelu_pytorch_tanh'),
        ("scale_attn_weights", False, "scale_attn_weights=false: true"),
        ("scale_attn_by_inverse_layer_idx", True, "scale_attn_by_inverse_layer_idx=true: false"),
    ],
)
def test_what_is_computed_otherwise_is_refused(tmp_path: Path, key: str, value: object, said: str) -> None:
    path = gpt2.write_safetensors(tmp_path, gpt2.buffers())
    write_config(tmp_path, **{key: value})
    with pytest.raises(WeightsError, match=said):
        verify(str(path))
