"""The tensors of a GGUF file, dequantised with the ``gguf`` package where they are quantised."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

from runner.estimate import gguf_file
from runner.weights.errors import INSTALL, WeightsError, as_weights_error
from runner.weights.tensor import PLAIN, Floats, Raw, Tensor


def load(path: Path) -> dict[str, Tensor]:
    """Every tensor of ``path`` by name. ``WeightsError`` names the file and what about it cannot be."""
    with as_weights_error():
        header = gguf_file.load(path)
    return of_header(header, path)


def of_header(header: gguf_file.Header, path: Path) -> dict[str, Tensor]:
    """``load`` of a header that was read already, of ``path``."""
    parts = header.values.get("split.count", 1)
    if parts not in (0, 1):
        raise WeightsError(
            f"{path}: split.count={parts}: one of several files of a model; merge them first "
            "(llama-gguf-split --merge does it)"
        )
    if not header.has_data:
        raise WeightsError(f"{path}: the file ends with its header: its tensors are not there")
    _refuse_overlaps(path, header)
    return {
        name: Tensor(
            file=path,
            name=name,
            shape=tensor.shape[::-1],
            start=header.data_start + tensor.offset,
            bytes=tensor.bytes,
            type=tensor.type,
            decode=_decoder(f"{path}: tensor {name}", tensor.type),
        )
        for name, tensor in header.tensors.items()
    }


def _refuse_overlaps(path: Path, header: gguf_file.Header) -> None:
    ends, last = 0, ""
    for tensor in sorted(header.tensors.values(), key=lambda one: one.offset):
        if tensor.offset < ends:
            raise WeightsError(f"{path}: tensor {tensor.name} overlaps {last}: an offset is wrong")
        ends, last = tensor.offset + tensor.bytes, tensor.name


def _decoder(where: str, kind: str) -> Callable[[Raw], Floats]:
    """The package is asked for once a tensor is read: a file of plain floats needs none."""
    if kind in PLAIN:
        return PLAIN[kind][1]

    def decode(raw: Raw) -> Floats:
        try:
            from gguf import GGMLQuantizationType, quants
        except ImportError as error:
            raise WeightsError(f"{where}: type {kind} is read with the gguf package: {INSTALL}") from error
        try:
            values = quants.dequantize(np.ascontiguousarray(raw), GGMLQuantizationType[kind])
        except (KeyError, NotImplementedError) as error:
            raise WeightsError(f"{where}: type {kind}: cannot be dequantised by this gguf package") from error
        made: Floats = np.asarray(values, np.float32)
        assert made.shape[0] == raw.shape[0] and math.prod(made.shape) > 0
        return made

    return decode
