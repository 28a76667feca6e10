"""Frequencies against a formula written apart from the repository's, and what a file says itself."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runner.check.case import Case
from runner.config.schema import Model
from runner.references import rotary
from runner.weights.errors import WeightsError
from tests.estimate.models import load
from tests.references.cases import case
from tests.weights.models import D, buffers, tensors, write_gguf

PLAIN: dict[str, Any] = {"theta": 5e5, "D": 128, "file": "", "rope": ""}
LLAMA_3_1: dict[str, Any] = {
    **PLAIN,
    **{"rope": "llama3", "rope_factor": 8.0, "rope_low_freq_factor": 1.0, "rope_high_freq_factor": 4.0},
    "rope_original_positions": 8192,
}


def by_wavelength(theta: float, dim: int, i: int, model: Model) -> float:
    """As Llama 3.1's authors say it, by the tokens of a whole turn."""
    plain = math.exp(-2 * i / dim * math.log(theta))
    tokens = 2 * math.pi / plain
    if tokens < model.rope_original_positions / model.rope_high_freq_factor:
        return plain
    if tokens > model.rope_original_positions / model.rope_low_freq_factor:
        return plain / model.rope_factor
    share = (model.rope_original_positions / tokens - model.rope_low_freq_factor) / (
        model.rope_high_freq_factor - model.rope_low_freq_factor
    )
    return (1 - share) * plain / model.rope_factor + share * plain


@pytest.mark.parametrize("name", ["llama3_1_8b", "llama3_2_1b"])
def test_llama3_divides_the_slow_pairs(name: str) -> None:
    model = load(name)
    symbols = {"theta": model.rope_theta, "D": model.head_dim, "file": "", "rope": model.rope_scaling}
    found = rotary.scaled(case({**symbols, **{key: getattr(model, key) for key in LLAMA_3_1 if key[:5] == "rope_"}}))
    wanted = [by_wavelength(model.rope_theta, model.head_dim, i, model) for i in range(model.head_dim // 2)]
    np.testing.assert_allclose(found, wanted, rtol=1e-13)
    kinds = np.unique(np.round(rotary.frequencies(model.rope_theta, model.head_dim) / found, 9))
    assert kinds[0] == 1 and kinds[-1] == model.rope_factor and len(kinds) > 4, "some of each kind"


def test_linear_divides_all_and_plain_none() -> None:
    plain = rotary.frequencies(1e4, 8)
    np.testing.assert_allclose(plain, [1.0, 0.1, 0.01, 0.001], rtol=1e-14)
    some = {"theta": 1e4, "D": 8, "file": ""}
    np.testing.assert_array_equal(rotary.scaled(case({**some, "rope": ""})), plain)
    np.testing.assert_array_equal(rotary.scaled(case({**some, "rope": "linear", "rope_factor": 4.0})), plain / 4)


def file_with(folder: Path, factors: list[float], *, type_of: str = "F32") -> Case:
    path = folder / "m.gguf"
    values = tensors(buffers())
    values["rope_freqs.weight"] = np.array(factors, np.float32)
    write_gguf(path, values, "llama", lambda name: type_of)
    return case({**LLAMA_3_1, "D": D, "file": str(path)})


def test_factors_of_a_file_are_taken_as_they_are(tmp_path: Path) -> None:
    factors = [1.0, 1.0, 1.0, 1.5, 2.25, 4.0, 8.0, 8.0]
    found = rotary.scaled(file_with(tmp_path, factors))
    np.testing.assert_array_equal(found, rotary.frequencies(5e5, D) / factors)


@pytest.mark.parametrize(
    ("factors", "said"),
    [
        ([1.0] * 7, r"tensor rope_freqs.weight: shape \[7\], by the model's figures \[8\]"),
        ([1.0] * 7 + [0.0], "factors of rotary frequencies: each a number above 0"),
        ([1.0] * 7 + [math.inf], "factors of rotary frequencies: each a number above 0"),
        ([1.0] * 7 + [math.nan], "factors of rotary frequencies: each a number above 0"),
    ],
)
def test_factors_that_cannot_be(tmp_path: Path, factors: list[float], said: str) -> None:
    with pytest.raises(WeightsError, match=said):
        rotary.scaled(file_with(tmp_path, factors))


def test_a_file_without_factors_leaves_it_to_the_figures(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    write_gguf(path, tensors(buffers()), "llama")
    same = {**LLAMA_3_1, "D": D}
    np.testing.assert_array_equal(
        rotary.scaled(case({**same, "file": str(path)})), rotary.scaled(case({**same, "file": ""}))
    )
