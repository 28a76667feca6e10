"""Prompts: ids as they are written, and text by the tokenizer of either format."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tokenizers import pre_tokenizers

from runner.weights import prompt, tokenizer
from runner.weights.errors import WeightsError
from runner.weights.prompt import prompt_ids
from tests.estimate.ggufs import Gguf
from tests.weights.models import write_config

BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
MERGES = ["h e", "l l", "he ll", "hell o", "Ġ w", "1 2", "12 3", "2 3", "o o"]
WORDS = [*BYTES, *dict.fromkeys(merge.replace(" ", "") for merge in MERGES), "<s>", "<|end|>"]
ID = {word: number for number, word in enumerate(WORDS)}


def keys(**changes: Any) -> dict[str, Any]:
    made = {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "llama-bpe",
        "tokenizer.ggml.tokens": WORDS,
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.token_type": [1] * (len(WORDS) - 2) + [3, 4],
        "tokenizer.ggml.bos_token_id": ID["<s>"],
        "tokenizer.ggml.add_bos_token": False,
    }
    return {**made, **{f"tokenizer.ggml.{key}": value for key, value in changes.items()}}


def write(folder: Path, **changes: Any) -> str:
    """Without a key where ``changes`` has None."""
    path = folder / "m.gguf"
    given = {key: value for key, value in keys(**changes).items() if value is not None}
    path.write_bytes(Gguf(given, {}).header())
    return str(path)


def ids(*words: str) -> list[int]:
    return [ID[word] for word in words]


def test_ids_need_no_file() -> None:
    assert prompt_ids("[1, 2,3]") == prompt_ids(" [1,2,3]", "/nowhere.gguf", vocab=4) == [1, 2, 3]


@pytest.mark.parametrize(
    ("text", "vocab", "said"),
    [
        ("[1, -2]", None, "prompt='[1, -2]': a list of token ids, whole numbers from 0 on"),
        ("[1, true]", None, "a list of token ids"),
        ("[1.5]", None, "a list of token ids"),
        ("[]", None, "prompt='[]': at least one token"),
        ("[5, 100]", 100, "prompt='[5, 100]': token 100: the model has those from 0 to 99"),
        ("hello", None, "prompt='hello': token ids, [1,2,3], or a text with model.weights=<file>"),
        ("x" * (prompt.TEXT_LIMIT + 1), None, f"…: {prompt.TEXT_LIMIT + 1} characters: at most {prompt.TEXT_LIMIT}"),
        ("[" * 100_000, None, "or a text with model.weights=<file>"),
    ],
)
def test_a_prompt_that_cannot_be(text: str, vocab: int | None, said: str) -> None:
    with pytest.raises(WeightsError) as refused:
        prompt_ids(text, "", vocab)
    assert said in str(refused.value) and len(str(refused.value)) < 200


def test_text_by_the_merges_of_a_gguf_file(tmp_path: Path) -> None:
    assert prompt_ids("hello w123", write(tmp_path)) == ids("hello", "Ġw", "123")


@pytest.mark.parametrize(
    ("split", "numbers"),
    [
        ("llama-bpe", ids("123", "1")),  # three digits at most
        ("qwen2", ids("1", "2", "3", "1")),
        ("smollm", ids("1", "2", "3", "1")),
        ("gpt-2", ids("123", "1")),
        ("default", ids("123", "1")),
    ],
)
def test_ways_of_splitting_text(tmp_path: Path, split: str, numbers: list[int]) -> None:
    path = write(tmp_path, pre=split)
    assert prompt_ids("1231", path) == numbers
    assert prompt_ids("hello", path) == ids("hello")
    assert prompt_ids("hello w", path) == ids("hello", "Ġw")


def test_special_tokens_and_the_first_one(tmp_path: Path) -> None:
    path = write(tmp_path, add_bos_token=True)
    assert prompt_ids("hello<|end|>oo<s>", path) == ids("<s>", "hello", "<|end|>", "oo", "<s>")
    assert prompt_ids("oo", write(tmp_path, add_bos_token=None)) == ids("<s>", "oo")  # the default of Llama 3
    assert prompt_ids("oo", write(tmp_path, add_bos_token=None, pre="qwen2")) == ids("oo")


def test_any_text_comes_back(tmp_path: Path) -> None:
    path = write(tmp_path)
    text = "Grüße, 世界!\n\n\tdon't  [stop] 🙂 "
    assert tokenizer.load(Path(path)).decode(prompt_ids(text, path)) == text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": "llama"}, "tokenizer.ggml.model=llama: only gpt2 (byte-pair encoding) is known; give token ids"),
        ({"model": None}, "tokenizer.ggml.model=None: only gpt2"),
        ({"pre": "qwen"}, "tokenizer.ggml.pre=qwen: did you mean 'qwen2'?"),
        ({"tokens": None}, "tokenizer.ggml.tokens: a list of texts"),
        ({"merges": [1, 2]}, "tokenizer.ggml.merges: a list of texts"),
        ({"merges": ["h zz"]}, "tokenizer.ggml.merges: 'h zz': two tokens whose joint is one as well"),
        ({"merges": ["he"]}, "tokenizer.ggml.merges: 'he': two tokens"),
        ({"tokens": [*WORDS, "he"]}, "tokenizer.ggml.tokens: a token stands there twice"),
        ({"token_type": [1, 1]}, f"tokenizer.ggml.token_type: a number for each of {len(WORDS)} tokens"),
        ({"add_bos_token": True, "bos_token_id": 10**6}, "tokenizer.ggml.bos_token_id=1000000: a token's number, 0 to"),
        ({"add_bos_token": True, "bos_token_id": None}, "tokenizer.ggml.bos_token_id=None: a token's number"),
        ({"tokens": ["x" * 5000]}, "key tokenizer.ggml.tokens: an entry of 5000 bytes: at most 4096"),
    ],
)
def test_a_tokenizer_that_cannot_be(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    path = write(tmp_path, **changes)
    with pytest.raises(WeightsError) as refused:
        prompt_ids("hello", path)
    assert str(refused.value).startswith(f"{path}: ") and said in str(refused.value)


def test_text_by_the_tokenizer_beside_safetensors(tmp_path: Path) -> None:
    write_config(tmp_path)
    made = tokenizer.load(Path(write(tmp_path, add_bos_token=True)))
    (tmp_path / "tokenizer.json").write_text(made.to_str())
    for path in (tmp_path, tmp_path / "model.safetensors", tmp_path / "model.safetensors.index.json"):
        assert prompt_ids("hello", str(path)) == ids("<s>", "hello")


@pytest.mark.parametrize("text", ["{", json.dumps({"model": {"type": "BPE"}}), "[" * 100_000])
def test_a_tokenizer_json_that_cannot_be(tmp_path: Path, text: str) -> None:
    file = tmp_path / "tokenizer.json"
    with pytest.raises(WeightsError) as refused:
        prompt_ids("hello", str(tmp_path))
    assert str(refused.value).startswith(f"{file}: no such file")
    file.write_text(text)
    with pytest.raises(WeightsError) as refused:
        prompt_ids("hello", str(tmp_path))
    assert str(refused.value).startswith(f"{file}: not a tokenizer.json: ")


def test_the_package_is_named_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(WeightsError, match=r"by the tokenizers package: pip install 'gpu-kernel-runner\[weights\]'"):
        prompt_ids("hello", write(tmp_path))
    assert prompt_ids("[7]") == [7]
