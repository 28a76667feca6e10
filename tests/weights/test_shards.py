"""Sharded models: the index, the folder, and everything an index may not say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import save_file

from runner.weights import shards
from runner.weights.errors import WeightsError
from tests.weights.models import Floats, buffers, tensors, write_config
from tests.weights.test_stacked import same


def write(folder: Path, values: dict[str, Floats], **changed: Any) -> Path:
    """The tensors in two files by turns, and the index; ``changed``: tensor → file, in the index alone."""
    names = list(values)
    places: dict[str, Any] = {}
    for number in (0, 1):
        shard = f"model-0000{number + 1}-of-00002.safetensors"
        save_file({name: values[name] for name in names[number::2]}, folder / shard)
        places |= dict.fromkeys(names[number::2], shard)
    write_config(folder)
    index = folder / shards.INDEX
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": {**places, **changed}}))
    return index


def test_an_index_and_its_folder(tmp_path: Path) -> None:
    made = buffers()
    same(write(tmp_path, tensors(made)), made)
    same(tmp_path, made)


@pytest.mark.parametrize(
    "place",
    ["../../x.safetensors", "/etc/x.safetensors", "a/b.safetensors", "..", "a\\b.safetensors", "x\0.safetensors",
     "x.bin", shards.INDEX, "", 5, None, ["a.safetensors"]],
)  # fmt: skip
def test_a_shard_is_a_file_beside_the_index(tmp_path: Path, place: Any) -> None:
    index = write(tmp_path, tensors(buffers()), **{"lm_head.weight": place})
    with pytest.raises(WeightsError) as refused:
        shards.load(index)
    assert str(refused.value).startswith(f"{index}: weight_map: lm_head.weight=")
    assert str(refused.value).endswith(": the name of a .safetensors file beside the index")


def test_a_shard_that_is_missing_or_lacks_its_tensor(tmp_path: Path) -> None:
    index = write(tmp_path, tensors(buffers()), extra="model-00001-of-00002.safetensors")
    with pytest.raises(WeightsError, match=r"extra=model-00001-of-00002.safetensors: that file has no such"):
        shards.load(index)
    write(tmp_path, tensors(buffers()))
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(WeightsError, match=r"weight_map: .*model-00002-of-00002.safetensors: no such file"):
        shards.load(index)


def test_a_shard_that_is_a_link_to_itself(tmp_path: Path) -> None:
    index = write(tmp_path, tensors(buffers()))
    shard = tmp_path / "model-00001-of-00002.safetensors"
    shard.unlink()
    shard.symlink_to(shard)
    with pytest.raises(WeightsError, match=r"model-00001-of-00002.safetensors: (no such file|cannot be read)"):
        shards.load(index)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "weight_map: an object, tensor → file"),
        ('{"weight_map": []}', "weight_map: an object, tensor → file"),
        ("[]", "the index is no JSON object"),
        ("{", "the index is no JSON"),
        ("[" * 100_000, "the index is nested too deeply"),
        (" " * (16 << 20) + "{}", "larger than 16777216 bytes"),
    ],
)
def test_an_index_that_cannot_be(tmp_path: Path, text: str, said: str) -> None:
    index = tmp_path / shards.INDEX
    index.write_text(text)
    with pytest.raises(WeightsError) as refused:
        shards.load(index)
    assert str(refused.value).startswith(f"{index}: {said}")


def test_a_folder_needs_one_model(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"it has no \.safetensors file"):
        shards.load(tmp_path)
    for name in ("a", "b"):
        save_file(tensors(buffers()), tmp_path / f"{name}.safetensors")
    with pytest.raises(WeightsError, match=r"it has 2 \.safetensors files"):
        shards.load(tmp_path)
    (tmp_path / "b.safetensors").unlink()
    assert "lm_head.weight" in shards.load(tmp_path)
