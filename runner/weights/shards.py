"""A model in safetensors: one file, a folder, or the index that says which file holds which tensor."""

from __future__ import annotations

from pathlib import Path

from runner.config.small_file import content
from runner.weights import safetensors_file
from runner.weights.errors import WeightsError, as_weights_error
from runner.weights.safetensors_file import shown
from runner.weights.tensor import Tensor

INDEX = "model.safetensors.index.json"
_ONE = "model.safetensors"
_INDEX_LIMIT = 16 << 20
_SHARDS_LIMIT = 4096


def load(path: Path) -> dict[str, Tensor]:
    """Every tensor of the model at ``path`` by name. ``WeightsError`` names the file and what about it cannot be."""
    if path.is_dir():
        path = _in_folder(path)
    if path.name.endswith(".json"):
        return _indexed(path)
    return safetensors_file.load(path)


def _in_folder(folder: Path) -> Path:
    for name in (INDEX, _ONE):
        if (folder / name).exists():
            return folder / name
    found = sorted(folder.glob("*.safetensors"))
    if len(found) != 1:
        has = f"it has {len(found)} .safetensors files" if found else "it has no .safetensors file"
        raise WeightsError(f"{folder}: {INDEX} or {_ONE} in the folder, or one .safetensors file; {has}")
    return found[0]


def _indexed(index: Path) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    places = _weight_map(index)
    for shard in dict.fromkeys(places.values()):
        try:
            held = safetensors_file.load(index.parent / shard)
        except WeightsError as error:
            raise WeightsError(f"{index}: weight_map: {error}") from error
        for name, place in places.items():
            if place == shard:
                if name not in held:
                    raise WeightsError(
                        f"{index}: weight_map: {shown(name)}={shown(shard)}: that file has no such tensor"
                    )
                tensors[name] = held[name]
    return tensors


def _weight_map(index: Path) -> dict[str, str]:
    """Tensor → name of a file beside the index."""
    with as_weights_error():
        raw = content(index, str(index), _INDEX_LIMIT, f"a {INDEX}", "an index has some hundred thousand")
    places = safetensors_file.parsed(index, raw, "the index").get("weight_map")
    if not isinstance(places, dict) or not places:
        raise WeightsError(f"{index}: weight_map: an object, tensor → file")
    for name, shard in places.items():
        plain = isinstance(shard, str) and shard == Path(shard).name and "\\" not in shard and "\0" not in shard
        if not plain or not shard.endswith(".safetensors"):
            raise WeightsError(
                f"{index}: weight_map: {shown(name)}={shown(shard)}: the name of a .safetensors file beside the index"
            )
    if len(set(places.values())) > _SHARDS_LIMIT:
        raise WeightsError(f"{index}: weight_map: {len(set(places.values()))} files: at most {_SHARDS_LIMIT}")
    return places
