"""Buffers of a family from a model's file: the parts of each layer behind each other, the layers stacked."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from runner.config.errors import choose_from
from runner.weights import names
from runner.weights.errors import WeightsError
from runner.weights.files import Source, opened
from runner.weights.names import BUFFERS, ROPE_FACTORS, Part, Shape
from runner.weights.tensor import Tensor

Values = npt.NDArray[np.float32]


def buffer(path: str, name: str, dims: tuple[int, ...]) -> Values:
    """Buffer ``name`` (one of ``BUFFERS``) of the model at ``path``, float32 in C order, of shape ``dims``.

    ``dims`` are those of the file's model, or fewer layers of it: the first ones. The rows of Q and K are ordered as
    rotary positions that turn element i with i + D / 2 have them. ``WeightsError`` names the file and the tensor, and
    says what was found and expected; all tensors are looked at before one is read.
    """
    source = opened(path)
    _check_dims(source, name, dims)
    stack = names.stacks(source.model)[name]
    layers = dims[0] if stack.layered else 1
    found = [[(part, _tensor(source, part, layer)) for part in stack.parts] for layer in range(layers)]
    out = np.empty(dims, np.float32)
    for layer, parts in enumerate(found):
        shapes = [part.shape(source.model) for part in stack.parts]
        target = out[layer] if stack.layered else out.reshape(-1, *shapes[0][1:])
        row = 0
        for (part, tensor), shape in zip(parts, shapes, strict=True):
            rows = target[row : row + shape[0]]
            if _turned(source, part):
                columns = np.empty(shape[::-1], np.float32)
                tensor.read_into(columns)
                rows[:] = columns.T
            else:
                tensor.read_into(rows)
            if source.interleaved and part.heads is not None:
                _halve(rows, part.heads(source.model))
            row += shape[0]
    return out


def rope_factors(path: str, pairs: int) -> npt.NDArray[np.float64] | None:
    """What the file divides its rotary frequencies by, (``pairs``,): a GGUF file of Llama 3.1 and later has them as a
    tensor. None where it has none. ``WeightsError`` where they are not as many, or one is no number above 0."""
    source = opened(path)
    tensor = source.tensors.get(ROPE_FACTORS) if source.gguf else None
    if tensor is None:
        return None
    if tensor.shape != (pairs,):
        raise WeightsError(f"{tensor.where}: shape {list(tensor.shape)}, by the model's figures [{pairs}]")
    values = np.empty(pairs, np.float32)
    tensor.read_into(values)
    if not (np.isfinite(values) & (values > 0)).all():
        raise WeightsError(f"{tensor.where}: factors of rotary frequencies: each a number above 0")
    return values.astype(np.float64)


def check_dims(path: str, name: str, dims: tuple[int, ...]) -> None:
    """Whether ``buffer`` would take these. Raises ``WeightsError``."""
    _check_dims(opened(path), name, dims)


def verify(path: str) -> None:
    """Whether the file has every tensor that its model's buffers take, in the right shape. Raises ``WeightsError``."""
    source = opened(path)
    for _ in _tensors(source):
        pass
    rope_factors(path, source.model.head_dim // 2)


def _tensors(source: Source) -> Iterator[Tensor]:
    for stack in names.stacks(source.model).values():
        for layer in range(source.model.layers if stack.layered else 1):
            for part in stack.parts:
                yield _tensor(source, part, layer)


def _check_dims(source: Source, name: str, dims: Shape) -> None:
    if name not in BUFFERS:
        raise WeightsError(
            f"{source.path}: buffer '{name}' cannot be filled from weights; {choose_from(name, BUFFERS)}"
        )
    held = names.stacks(source.model)
    if name not in held:
        raise WeightsError(f"{source.path}: buffer {name}: this model has none; it has {', '.join(held)}")
    whole = names.dims(name, source.model)
    fewer = held[name].layered
    if dims != whole and not (fewer and dims[1:] == whole[1:] and 1 <= dims[0] <= whole[0]):
        raise WeightsError(
            f"{source.path}: buffer {name}: the experiment has {list(dims)}, the file's model {list(whole)}"
            f"{' (or fewer layers)' if fewer else ''}: parameters of the kernel, or the caps of scale, differ from the "
            "model's figures"
        )


def _turned(source: Source, part: Part) -> bool:
    """Whether the file has the part's columns as rows."""
    return part.turned and not source.gguf


def _tensor(source: Source, part: Part, layer: int) -> Tensor:
    name = (part.gguf if source.gguf else part.hf).format(layer)
    tensor = source.tensors.get(name)
    if tensor is None:
        kind = "GPT-2's" if source.model.max_positions else "Llama's or Qwen2's"
        raise WeightsError(f"{source.path}: no tensor {name}: a decoder of {kind} kind has one")
    expected = part.shape(source.model)
    if _turned(source, part):
        expected = expected[::-1]
    if tensor.shape != expected:
        raise WeightsError(f"{tensor.where}: shape {list(tensor.shape)}, by the model's figures {list(expected)}")
    return tensor


def _halve(rows: Values, heads: int) -> None:
    """Reorders the rows of each head in place: those that turned as neighbours become halves."""
    size = rows.shape[0] // heads
    for head in range(heads):
        block = rows[head * size : (head + 1) * size]
        pairs = block.reshape(size // 2, 2, *block.shape[1:])
        block[:] = pairs.swapaxes(0, 1).reshape(block.shape)
