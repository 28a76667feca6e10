"""The header of a GGUF file: its key/values and the shapes and types of its tensors, never their data.

The format is of ggml's documentation (versions 2 and 3, little-endian). The file may be anything: every length is held
against the bytes that are left before it is believed, and what is not needed later is passed over, not kept.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from runner.config.errors import ConfigError

KEYS_LIMIT = 4096
TENSORS_LIMIT = 65_536
NAME_LIMIT = 1024
"""Bytes of a key or of a tensor's name."""
ENTRIES_LIMIT = 2_000_000
"""Array entries that are looked at one by one, in the whole file; a tokenizer has some 600 thousand."""
NESTING_LIMIT = 4
KEPT_TEXT = 4096
"""A longer text value (a chat template) is passed over."""
KEPT_ENTRIES = 4096
"""A longer array of numbers is passed over; of texts only the number is kept."""
DIMENSIONS_LIMIT = 4
ELEMENTS_LIMIT = 1 << 48
_TEXT, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Number of a value's type → its ``struct`` format."""

TYPES: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 2 + 16),
    3: ("Q4_1", 32, 4 + 16),
    6: ("Q5_0", 32, 2 + 4 + 16),
    7: ("Q5_1", 32, 4 + 4 + 16),
    8: ("Q8_0", 32, 2 + 32),
    10: ("Q2_K", 256, 4 + 16 + 64),
    11: ("Q3_K", 256, 2 + 12 + 32 + 64),
    12: ("Q4_K", 256, 4 + 12 + 128),
    13: ("Q5_K", 256, 4 + 12 + 32 + 128),
    14: ("Q6_K", 256, 2 + 16 + 64 + 128),
    16: ("IQ2_XXS", 256, 2 + 64),
    17: ("IQ2_XS", 256, 2 + 64 + 8),
    18: ("IQ3_XXS", 256, 2 + 64 + 32),
    19: ("IQ1_S", 256, 2 + 32 + 16),
    20: ("IQ4_NL", 32, 2 + 16),
    21: ("IQ3_S", 256, 2 + 64 + 32 + 8 + 4),
    22: ("IQ2_S", 256, 2 + 64 + 16),
    23: ("IQ4_XS", 256, 2 + 2 + 4 + 128),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 32 + 16 + 8),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 2 + 52),
    35: ("TQ2_0", 256, 2 + 64),
    39: ("MXFP4", 32, 1 + 16),
}
"""Number of a tensor's type → name, elements of a block, bytes of a block."""


@dataclass(frozen=True)
class Tensor:
    name: str
    shape: tuple[int, ...]
    """Fastest dimension first, so ``(in, out)`` of a matrix."""
    type: str
    bytes: int
    offset: int = 0
    """Of its first byte, counted from ``Header.data_start``."""

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Counted:
    """An array that was not kept."""

    entries: int


@dataclass(frozen=True)
class Header:
    file: str
    values: dict[str, Any]
    """Key → number, text, flag, list of numbers (of texts, where asked for), or ``Counted``."""
    tensors: dict[str, Tensor]
    has_data: bool
    """False where the file ends with its header."""
    data_start: int = 0
    """Byte of the file at which the tensors' data begins."""


def load(path: Path, texts: Collection[str] = ()) -> Header:
    """The header of ``path``, with the lists of texts under the keys ``texts``, which are passed over otherwise.

    ``ConfigError`` names the file and what about it cannot be.
    """
    file = str(path)
    try:
        if not path.is_file():
            raise ConfigError(f"{file}: no such file: a .gguf file")
        with path.open("rb") as stream:
            return _Reader(file, stream, path.stat().st_size, frozenset(texts)).header()
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error


@dataclass
class _Reader:
    file: str
    stream: BinaryIO
    size: int
    texts: frozenset[str]
    at: int = 0
    entries: int = 0
    where: str = "the start"

    def header(self) -> Header:
        if self.take(4) != b"GGUF":
            self.fail("the first four bytes are not GGUF")
        version = self.number("I")
        if version not in (2, 3):
            big = int.from_bytes(version.to_bytes(4, "little"), "big") in (2, 3)
            self.fail("big-endian: only little-endian files are read" if big else f"version {version}: 2 or 3 is read")
        tensors, keys = self.number("Q"), self.number("Q")
        if tensors > TENSORS_LIMIT:
            self.fail(f"{tensors} tensors: at most {TENSORS_LIMIT}")
        if keys > KEYS_LIMIT:
            self.fail(f"{keys} keys: at most {KEYS_LIMIT}")
        values: dict[str, Any] = {}
        for number in range(keys):
            self.where = f"key number {number + 1} of {keys}"
            key = self.name()
            if key in values:
                self.fail(f"key {key} stands there twice")
            self.where = f"key {key}"
            values[key] = self.value(self.number("I"), 0, key in self.texts)
        found, ends = self.tensors(tensors)
        start = self.data_start(values)
        return Header(self.file, values, found, self.has_data(start, ends), start)

    def tensors(self, number: int) -> tuple[dict[str, Tensor], int]:
        """The tensors, and where the last of them ends, counted from the start of the data."""
        found: dict[str, Tensor] = {}
        ends = 0
        for index in range(number):
            self.where = f"tensor number {index + 1} of {number}"
            name = self.name()
            if name in found:
                self.fail(f"tensor {name} stands there twice")
            self.where = f"tensor {name}"
            dimensions = self.number("I")
            if not 1 <= dimensions <= DIMENSIONS_LIMIT:
                self.fail(f"{dimensions} dimensions: 1 to {DIMENSIONS_LIMIT}")
            shape = tuple(self.number("Q") for _ in range(dimensions))
            elements = math.prod(shape)
            if not 1 <= elements <= ELEMENTS_LIMIT:
                self.fail(f"shape {shape}: 1 to {ELEMENTS_LIMIT} elements")
            kind, offset = self.number("I"), self.number("Q")
            if kind not in TYPES:
                self.fail(f"type number {kind}: one of {', '.join(f'{n} ({t[0]})' for n, t in TYPES.items())}")
            called, block, width = TYPES[kind]
            if shape[0] % block:
                self.fail(f"rows of {shape[0]} elements: {called} stores {block} at a time")
            found[name] = Tensor(name, shape, called, elements // block * width, offset)
            ends = max(ends, offset + found[name].bytes)
        return found, ends

    def data_start(self, values: dict[str, Any]) -> int:
        self.where = "key general.alignment"
        alignment = values.get("general.alignment", 32)
        if type(alignment) is not int or not 1 <= alignment <= 1 << 20:
            self.fail("a number from 1 to 1048576")
        return -(-self.at // alignment) * alignment

    def has_data(self, start: int, ends: int) -> bool:
        """Whether the tensors' data is there. A file that ends with its header is a header; one that ends within the
        data is cut."""
        if self.size <= start:
            return False
        if start + ends > self.size:
            self.where = "the tensors' data"
            self.fail(f"reaches to byte {start + ends}, the file has {self.size}: it is cut, or an offset is wrong")
        return True

    def value(self, kind: int, depth: int, texts: bool) -> Any:
        if kind == _TEXT:
            length = self.number("Q")
            if length > KEPT_TEXT:
                self.skip(length)
                return Counted(length)
            return self.decoded(length)
        if kind == _ARRAY:
            return self.array(depth + 1, texts)
        if kind not in _SCALARS:
            self.fail(f"value type {kind}: 0 to 12")
        return self.number(_SCALARS[kind])

    def array(self, depth: int, texts: bool) -> Any:
        """``texts``: a list of texts is kept, and so is one of numbers however long."""
        if depth > NESTING_LIMIT:
            self.fail(f"arrays nested more than {NESTING_LIMIT} deep")
        kind, entries = self.number("I"), self.number("Q")
        if kind in _SCALARS:
            width = struct.calcsize("<" + _SCALARS[kind])
            if entries > KEPT_ENTRIES and not texts:
                self.skip(entries * width)
                return Counted(entries)
            self.count(entries)
            return list(struct.unpack(f"<{entries}{_SCALARS[kind]}", self.take(entries * width)))
        if kind not in (_TEXT, _ARRAY):
            self.fail(f"an array of value type {kind}: 0 to 12")
        self.count(entries)
        if kind == _TEXT and texts:
            return [self.kept_text() for _ in range(entries)]
        for _ in range(entries):
            if kind == _TEXT:
                self.skip(self.number("Q"))
            else:
                self.array(depth + 1, False)
        return Counted(entries)

    def kept_text(self) -> str:
        length = self.number("Q")
        if length > KEPT_TEXT:
            self.fail(f"an entry of {length} bytes: at most {KEPT_TEXT}")
        try:
            return str(self.take(length).decode())
        except UnicodeDecodeError:
            self.fail("an entry that is no UTF-8")

    def count(self, entries: int) -> None:
        """Limits the work, whatever the file's size."""
        self.entries += entries
        if self.entries > ENTRIES_LIMIT:
            self.fail(f"array entries up to here: {self.entries}, at most {ENTRIES_LIMIT}")

    def name(self) -> str:
        length = self.number("Q")
        if not 1 <= length <= NAME_LIMIT:
            self.fail(f"a name of {length} bytes: 1 to {NAME_LIMIT}")
        return self.decoded(length)

    def decoded(self, length: int) -> str:
        """Text without control characters, which would reach a terminal."""
        text = self.take(length).decode("utf-8", "replace")
        return "".join(character if character.isprintable() else "\ufffd" for character in text)

    def number(self, code: str) -> Any:
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]

    def take(self, length: int) -> bytes:
        self.left(length)
        data = self.stream.read(length)
        if len(data) < length:
            self.fail("the file ended while it was read")
        self.at += length
        return data

    def skip(self, length: int) -> None:
        self.left(length)
        self.stream.seek(length, 1)
        self.at += length

    def left(self, length: int) -> None:
        """Refuse to go beyond the end."""
        if length > self.size - self.at:
            self.fail(f"{length} bytes are needed, {self.size - self.at} are left: the file is cut")

    def fail(self, message: str) -> NoReturn:
        raise ConfigError(f"{self.file}: {self.where}: {message}")
