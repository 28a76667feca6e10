"""Given tokens: files of ids in each form, files of text, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from runner.weights.errors import WeightsError
from runner.weights.token_ids import located, token_ids
from tests.weights.test_prompt import ids, write

IDS = [3, 0, 39, 7]


@pytest.mark.parametrize("form", ["json", "lines", "spaced", "npy", "written"])
def test_every_form_gives_the_same_ids(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"ids.{'npy' if form == 'npy' else 'txt'}"
    if form == "npy":
        np.save(path, np.array(IDS, np.uint16))
    texts = {"json": json.dumps(IDS), "lines": "3\n0\n39\n7\n", "spaced": " 3 0\n39 7 "}
    if form in texts:
        path.write_text(texts[form])
    made = token_ids(json.dumps(IDS) if form == "written" else str(path), "", 40)
    assert made.dtype == np.int64 and made.tolist() == IDS


def test_a_text_and_a_file_of_text_go_through_the_tokenizer(tmp_path: Path) -> None:
    model, path = write(tmp_path), tmp_path / "prose"
    path.write_text("hello w123\n")
    wanted = ids("hello", "Ġw", "123")
    assert token_ids("hello w123", model, 1000).tolist() == wanted
    assert token_ids(str(path), model, 1000).tolist() == wanted


def test_a_file_is_named_absolutely_and_a_text_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ids.json").write_text("[1]")
    assert located("ids.json") == str(tmp_path / "ids.json")
    for text in ("hello w", "[1,2]", "x" * 5000, "a\0b", "read notes.txt please"):
        assert located(text) == text


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.json", b"[1, 40]", "token 40: the model has those from 0 to 39"),
        ("a.json", b"[1, -1]", "a list of token ids, whole numbers from 0 on"),
        ("a.json", b"[]", "at least one token"),
        ("a.json", b"[1, 99999999999999999999]", "too large"),
        ("a.ids", b"", "at least one token"),
        ("a.ids", b"1\n99999999999999999999\n", "a number that is no token id"),
        ("a.ids", b"1\n-2\n", "neither a list of token ids, nor is there model.weights=<file> with a tokenizer"),
        ("a.ids", b"\xff\xfe", "cannot be read"),
        ("a.npy", b"no array", "not a .npy file of numbers"),
    ],
)
def test_a_file_that_cannot_be(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(WeightsError) as refused:
        token_ids(str(path), "", 40)
    message = str(refused.value)
    assert message.startswith("kernel.params.text=") and said in message and message.count("\n") == 0


@pytest.mark.parametrize("array", [np.zeros((2, 2), np.int64), np.zeros(3, np.float32), np.int64(3)])
def test_an_array_that_is_no_list_of_ids(tmp_path: Path, array: np.ndarray) -> None:
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(WeightsError, match="whole numbers in one dimension"):
        token_ids(str(tmp_path / "a.npy"), "", 40)


def test_an_array_of_negative_ids(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([4, -3]))
    with pytest.raises(WeightsError, match="token -3: the model has those from 0 to 39"):
        token_ids(str(tmp_path / "a.npy"), "", 40)


@pytest.mark.parametrize("text", ["nowhere/ids.json", "gone.npy"])
def test_a_slip_in_a_files_name_is_no_text(tmp_path: Path, text: str) -> None:
    with pytest.raises(WeightsError, match=f"kernel.params.text={text}: no such file; allowed are"):
        token_ids(text, write(tmp_path), 1000)


def test_a_file_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.weights.token_ids.TEXT_LIMIT", 4)
    (tmp_path / "a.txt").write_text("1 " * 9)
    with pytest.raises(WeightsError, match=r"more than 16 bytes; a longer list may be a \.npy file"):
        token_ids(str(tmp_path / "a.txt"), "", 40)
