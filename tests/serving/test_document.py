"""A served trace through a file and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.result.document import DocumentError
from runner.serving import document
from runner.serving.figures import metrics
from runner.serving.synthetic import Synthetic, synthetic
from runner.serving.tables import request_rows, step_rows
from tests.serving.modelled import served


def test_nothing_is_lost(tmp_path: Path) -> None:
    before, _ = served(synthetic(Synthetic(30, 40.0, (1, 200), (1, 9), shared=32)), "chunked", slots=4)
    path = tmp_path / "served.json"
    document.write(before, path)
    after = document.read(path)
    assert after.steps == before.steps and metrics(after) == metrics(before)
    assert request_rows(after) == request_rows(before) and step_rows(after) == step_rows(before)
    pairs = zip(after.requests, before.requests, strict=True)
    assert all((one.tokens == other.tokens).all() and one.tokens.dtype == other.tokens.dtype for one, other in pairs)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"version": 2}', "version=2: must be 1"),
        ("[]", "is no served trace"),
        ("{", "is no served trace"),
        ('{"version": 1, "requests": []}', "is no served trace: 'steps'"),
        ('{"version": 1, "requests": [{}], "steps": []}', "is no served trace"),
        ('{"version": 1, "requests": [], "steps": [{"at": 1}]}', "is no served trace"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "served.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DocumentError) as caught:
        document.read(path)
    assert f"{path}: {said}" in str(caught.value)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="cannot be read: No such file"):
        document.read(tmp_path / "none.json")
