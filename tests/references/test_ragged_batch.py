from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runner.check.case import Case
from runner.references.ragged_batch import active_lengths, expected, inputs
from tests.references.cases import case, check, rows, uniform


def scheduled(lengths: str = "uniform", **changed: Any) -> Case:
    symbols = {"Bmax": 8, "active": 5, "Tmax": 40, "tokens": 100, "H": 2, "D": 16, "order": "slot", "file": ""}
    return case({**symbols, "lengths": lengths, **changed})


@pytest.mark.parametrize("name", ["uniform", "bimodal", "long_tail"])
@pytest.mark.parametrize(
    ("active", "longest", "tokens"), [(5, 40, 100), (1, 7, 7), (6, 9, 6), (6, 9, 54), (37, 2048, 37 * 300)]
)
def test_lengths_add_up(name: str, active: int, longest: int, tokens: int) -> None:
    found = active_lengths(scheduled(name, active=active, Tmax=longest, tokens=tokens))
    assert found.shape == (active,) and found.sum() == tokens
    assert found.min() >= 1 and found.max() <= longest


def test_the_distributions_differ_in_shape() -> None:
    spread = {}
    for name in ("uniform", "bimodal", "long_tail"):
        found = active_lengths(scheduled(name, active=64, Tmax=4096, tokens=64 * 512))
        spread[name] = (found.max() / found.mean(), float(np.median(found)) / found.mean())
    assert spread["uniform"] == pytest.approx((2.0, 1.0), abs=0.05)
    assert spread["bimodal"] == pytest.approx((3.25, 0.25), abs=0.05)
    root = 1 / np.sqrt(1.0 + np.arange(64))
    want = (root.max() / root.mean(), float(np.median(root)) / root.mean())
    assert spread["long_tail"] == pytest.approx(want, abs=0.05)


def test_tables_agree() -> None:
    for order in ("slot", "longest"):
        some = scheduled(order=order)
        lengths, ids, offsets = (inputs(some, name) for name in ("seq_lens", "active_ids", "offsets"))
        assert sorted(ids) == list(np.flatnonzero(lengths)) and len(ids) == 5
        assert list(np.diff(offsets)) == [lengths[i] for i in ids] and offsets[0] == 0
        picked = list(lengths[ids])
        assert order == "slot" or picked == sorted(picked, reverse=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3\n2\n", "has 2 lengths, 5 tokens together"),
        ("1\nx\n", "2: 'x' is not a length"),
        ("41\n", "1: length 41 is not between 1 and Tmax=40"),
        ("0\n", "length 0 is not between"),
    ],
)
def test_a_wrong_file_says_where(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "lengths"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        active_lengths(scheduled("file", file=str(path)))
    with pytest.raises(ValueError, match="No such file"):
        active_lengths(scheduled("file", file=str(tmp_path / "absent")))


def test_outputs_against_loops() -> None:
    q, k, v = uniform(1, 3, 2, 16), uniform(2, 3, 2, 4, 16), uniform(3, 3, 2, 4, 16)
    lengths, ids = np.array([2, 0, 4]), np.array([2, 0])
    some = case({"Bmax": 3, "H": 2, "D": 16, "Tmax": 4}, q=q, k=k, v=v, seq_lens=lengths, active_ids=ids)
    padded = np.where(np.arange(4)[None, None, :, None] < lengths[:, None, None, None], 1.0, 0.0)
    scores = np.einsum("bhd,bhtd->bht", q.astype(float), k * padded)
    want = np.einsum("bht,bhtd->bhd", scores, v * padded) / math.sqrt(4 * 16)
    got = expected(some, check("padded_full"), rows(*range(6))).reshape(3, 2, 16)
    assert np.allclose(got, want, rtol=1e-12, atol=1e-14) and not got[1].any()
    compact = expected(some, check("compact_active"), rows(*range(4))).reshape(2, 2, 16)
    assert np.array_equal(compact, got[ids])
    weights = np.exp(scores / 4.0) * padded[..., 0]
    attention = np.einsum("bht,bhtd->bhd", weights, v.astype(float))[ids] / weights.sum(-1)[ids][..., None]
    got = expected(some, check("softmax_split"), rows(*range(4))).reshape(2, 2, 16)
    assert np.allclose(got, attention, rtol=1e-12, atol=1e-14)
