"""A safetensors file: eight bytes with the length of a JSON header, the header, then the tensors' bytes.

The file may be anything: every number of the header is held against the file's size before it is believed.
"""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any, TypeGuard

from runner.weights.errors import WeightsError
from runner.weights.tensor import PLAIN, Tensor

HEADER_LIMIT = 4 << 20
"""Bytes; a tensor takes some hundred, and a file has some hundreds to thousands of them."""
DIMENSIONS_LIMIT = 8
_WIDTHS = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "I64": 8, "I32": 4, "I16": 2, "I8": 1,
    "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1,
}  # fmt: skip
"""Bytes of an element."""


def load(path: Path) -> dict[str, Tensor]:
    """The floating-point tensors of ``path`` by name, and the others with a decoder that refuses.

    ``WeightsError`` names the file, the tensor, and what about it cannot be.
    """
    try:
        if not path.is_file():
            raise WeightsError(f"{path}: no such file: a .safetensors file")
        size = path.stat().st_size
        with path.open("rb") as stream:
            length = _header_length(path, stream.read(8), size)
            raw = stream.read(length)
    except OSError as error:
        raise WeightsError(f"{path}: cannot be read: {error.strerror or error}") from error
    entries = parsed(path, raw, "the header")
    entries.pop("__metadata__", None)
    begin = 8 + length
    tensors = {name: _tensor(path, name, entry, begin, size - begin) for name, entry in entries.items()}
    _refuse_overlaps(path, tensors)
    return tensors


def parsed(path: Path, raw: bytes, what: str) -> dict[str, Any]:
    """A JSON object. Raises ``WeightsError`` where it is none, or has a key twice."""
    try:
        values = json.loads(raw, object_pairs_hook=_object)
    except RecursionError as error:
        raise WeightsError(f"{path}: {what} is nested too deeply") from error
    except ValueError as error:
        raise WeightsError(f"{path}: {what} is no JSON: {error}") from error
    if not isinstance(values, dict):
        raise WeightsError(f"{path}: {what} is no JSON object")
    return values


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key stands there twice")
    return made


def _header_length(path: Path, raw: bytes, size: int) -> int:
    if len(raw) < 8:
        raise WeightsError(f"{path}: {size} bytes: a safetensors file begins with the length of its header, 8 bytes")
    (length,) = struct.unpack("<Q", raw)
    if length > HEADER_LIMIT:
        raise WeightsError(f"{path}: a header of {length} bytes: at most {HEADER_LIMIT}; is it a safetensors file?")
    if length > size - 8:
        raise WeightsError(f"{path}: a header of {length} bytes, {size - 8} are left: the file is cut")
    return int(length)


def _tensor(path: Path, name: str, entry: Any, begin: int, left: int) -> Tensor:
    """``left``: bytes of the file after its header."""
    where = f"{path}: tensor {shown(name)}"
    if not isinstance(entry, dict):
        raise WeightsError(f"{where}: an object with dtype, shape and data_offsets")
    kind, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(kind, str) or kind not in _WIDTHS:
        raise WeightsError(f"{where}: dtype={shown(kind)}: one of {', '.join(_WIDTHS)}")
    if not _whole_numbers(shape) or len(shape) > DIMENSIONS_LIMIT:
        raise WeightsError(f"{where}: shape={shown(shape)}: at most {DIMENSIONS_LIMIT} whole numbers, none negative")
    if not _whole_numbers(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise WeightsError(f"{where}: data_offsets={shown(offsets)}: first byte and end, in this order")
    if offsets[1] > left:
        raise WeightsError(f"{where}: reaches to byte {offsets[1]} of the data, the file has {left}: it is cut")
    needed = math.prod(shape) * _WIDTHS[kind]
    if needed != offsets[1] - offsets[0]:
        raise WeightsError(
            f"{where}: data_offsets={shown(offsets)}: {offsets[1] - offsets[0]} bytes, shape {shown(shape)} of {kind} "
            f"takes {needed}"
        )
    decode = PLAIN[kind][1] if kind in PLAIN else _refusing(where, kind)
    return Tensor(path, name, tuple(shape), begin + offsets[0], needed, kind, decode)


def _refusing(where: str, kind: str) -> Any:
    def decode(raw: Any) -> Any:
        raise WeightsError(f"{where}: dtype={kind}: only {', '.join(PLAIN)} can be read as weights")

    return decode


def _whole_numbers(value: Any) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


def _refuse_overlaps(path: Path, tensors: dict[str, Tensor]) -> None:
    ends, last = 0, ""
    for tensor in sorted(tensors.values(), key=lambda one: (one.start, one.bytes)):
        if tensor.start < ends and tensor.bytes:
            raise WeightsError(f"{path}: tensor {shown(tensor.name)} overlaps {shown(last)}: an offset is wrong")
        ends, last = max(ends, tensor.start + tensor.bytes), tensor.name


def shown(value: object) -> str:
    """Cut where long, and without control characters, which would reach a terminal."""
    text = value if isinstance(value, str) and value.isprintable() else ascii(value)
    return text if len(text) <= 80 else text[:80] + "…"
