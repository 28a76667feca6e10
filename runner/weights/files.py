"""A model's file as an open source of weights: its figures, its tensors, and how it orders the rows of Q and K."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from runner.config.schema import Model
from runner.estimate import config_file, gguf_file, gguf_header, model_file
from runner.weights import gguf_tensors, shards
from runner.weights.errors import WeightsError, as_weights_error
from runner.weights.tensor import Tensor

_ACTIVATIONS = {
    "hidden_act": ("silu", "swish"),
    "activation_function": ("gelu_new", "gelu_fast", "gelu_pytorch_tanh"),
}
"""Key of ``config.json``, by the kind of model → what its activation may be called; the first where it is absent."""
_PREFIX = "transformer."
"""What the names of GPT-2's tensors may begin with."""


@dataclass(frozen=True)
class Source:
    """Values are read when they are asked for."""

    path: Path
    model: Model
    tensors: Mapping[str, Tensor]
    gguf: bool
    interleaved: bool
    """Rows 2 i and 2 i + 1 of a head of Q or K turn together, as llama.cpp stores Llama; else i and i + D / 2."""


def opened(path: str) -> Source:
    """The source at ``path``; kept as long as the file does not change. ``WeightsError`` names what cannot be read."""
    place = Path(path)
    try:
        stat = place.stat()
    except (OSError, ValueError) as error:
        raise WeightsError(f"{path}: no such file: a .gguf or .safetensors file, or a folder of them") from error
    return _opened(place, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=4)
def _opened(path: Path, changed: int, size: int) -> Source:
    """``changed`` and ``size`` are part of the key alone."""
    with as_weights_error():
        if model_file.is_gguf(path):
            header = gguf_file.load(path)
            model = gguf_header.described(header, path)
            interleaved = header.values.get("general.architecture") == "llama"
            if interleaved and model.head_dim % 2:
                raise WeightsError(f"{path}: heads of {model.head_dim}: an even number, as pairs of rows turn together")
            return Source(path, model, gguf_tensors.of_header(header, path), gguf=True, interleaved=interleaved)
        model = model_file.read(path)
        _require_activation(model, model_file.config_of(path))
        tensors = shards.load(path)
        if model.max_positions:
            tensors = {name.removeprefix(_PREFIX): tensor for name, tensor in tensors.items()}
        return Source(path, model, tensors, gguf=False, interleaved=False)


def _require_activation(model: Model, path: Path) -> None:
    """Of GPT-2 also the scale of its scores, which may be another."""
    fields = config_file.load(path)
    key = "activation_function" if model.max_positions else "hidden_act"
    known = _ACTIVATIONS[key]
    if fields.text(key) not in ("", *known):
        raise fields.wrong(key, f"{' or '.join(known)}: weights are read for decoders with that activation")
    fields.only("scale_attn_weights", True, "scores are divided by the root of the head's size")
    fields.only("scale_attn_by_inverse_layer_idx", False, "scores are scaled alike in every layer")
