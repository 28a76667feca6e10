"""A tensor as it lies in a file, and its values in float32, some rows at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from runner.weights.errors import WeightsError

Floats = npt.NDArray[np.float32]
Raw = npt.NDArray[np.uint8]

CHUNK_ELEMENTS = 1 << 22
"""Elements decoded at a time: what the temporaries of a decoder may cost, whatever the tensor's size."""


@dataclass(frozen=True)
class Tensor:
    """Where a tensor's bytes are, and how they are read."""

    file: Path
    name: str
    shape: tuple[int, ...]
    """C order, as the family's buffers have it."""
    start: int
    """Byte of the file."""
    bytes: int
    type: str
    """As the format names it: ``Q4_K``, ``BF16``."""
    decode: Callable[[Raw], Floats]
    """Bytes of whole rows (rows, bytes of a row) → values (rows, elements of a row)."""

    @property
    def where(self) -> str:
        """What messages begin with."""
        return f"{self.file}: tensor {self.name}"

    def read_into(self, out: npt.NDArray[Any]) -> None:
        """Writes the values, float32, into ``out`` of the tensor's shape. Raises ``WeightsError``."""
        columns = self.shape[-1]
        rows = math.prod(self.shape[:-1])
        flat = out.reshape(rows, columns)
        assert np.shares_memory(flat, out)
        for first, values in self._chunks(rows, columns):
            flat[first : first + len(values)] = values

    def _chunks(self, rows: int, columns: int) -> Iterator[tuple[int, Floats]]:
        try:
            mapped = np.memmap(self.file, np.uint8, "r", self.start, (rows, self.bytes // rows))
        except (OSError, ValueError) as error:
            raise WeightsError(f"{self.where}: cannot be read: {error}") from error
        step = max(1, CHUNK_ELEMENTS // columns)
        for first in range(0, rows, step):
            yield first, self.decode(np.asarray(mapped[first : first + step]))


def decode_f32(raw: Raw) -> Floats:
    return np.ascontiguousarray(raw).view("<f4").astype(np.float32, copy=False)


def decode_f16(raw: Raw) -> Floats:
    return np.ascontiguousarray(raw).view("<f2").astype(np.float32)


def decode_bf16(raw: Raw) -> Floats:
    """The upper half of a float32."""
    return (np.ascontiguousarray(raw).view("<u2").astype(np.uint32) << np.uint32(16)).view(np.float32)


PLAIN: dict[str, tuple[int, Callable[[Raw], Floats]]] = {
    "F32": (4, decode_f32),
    "F16": (2, decode_f16),
    "BF16": (2, decode_bf16),
}
"""Name → bytes of an element, decoder: the same in both formats."""
