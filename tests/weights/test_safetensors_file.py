"""What a safetensors file may not be: each is one clear error that names the file, and none takes memory."""

from __future__ import annotations

import json
import os
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runner.weights import safetensors_file
from runner.weights.errors import WeightsError

SOUND = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}


def write(folder: Path, header: Any, data: bytes = bytes(48), length: int | None = None) -> Path:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    path = folder / "m.safetensors"
    path.write_bytes(struct.pack("<Q", len(raw) if length is None else length) + raw + data)
    return path


def test_a_sound_file(tmp_path: Path) -> None:
    header = {"__metadata__": {"format": "pt"}, "a": SOUND, "b": {**SOUND, "data_offsets": [24, 48]}}
    made = safetensors_file.load(write(tmp_path, header, np.arange(12, dtype="<f4").tobytes()))
    out = np.empty((2, 3), np.float32)
    made["b"].read_into(out)
    np.testing.assert_array_equal(out, [[6, 7, 8], [9, 10, 11]])


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (5, "tensor a: an object with dtype, shape and data_offsets"),
        ({**SOUND, "dtype": "F4"}, "tensor a: dtype=F4: one of F64, F32, "),
        ({**SOUND, "dtype": None}, "tensor a: dtype=None: one of"),
        ({**SOUND, "shape": [2, -3]}, "tensor a: shape=[2, -3]: at most 8 whole numbers, none negative"),
        ({**SOUND, "shape": [1] * 9}, "tensor a: shape=[1, 1, 1, 1, 1, 1, 1, 1, 1]: at most 8"),
        ({**SOUND, "shape": [2, 3.0]}, "tensor a: shape=[2, 3.0]"),
        ({**SOUND, "shape": 6}, "tensor a: shape=6"),
        ({**SOUND, "shape": [2**40, 2**40]}, "24 bytes, shape [1099511627776, 1099511627776] of F32 takes"),
        ({**SOUND, "data_offsets": [24, 0]}, "tensor a: data_offsets=[24, 0]: first byte and end, in this order"),
        ({**SOUND, "data_offsets": [0, 24, 48]}, "tensor a: data_offsets=[0, 24, 48]"),
        ({**SOUND, "data_offsets": [0, 20]}, "20 bytes, shape [2, 3] of F32 takes 24"),
        ({**SOUND, "data_offsets": [2**62, 2**62 + 24]}, "reaches to byte 4611686018427387928 of the data"),
        ({**SOUND, "data_offsets": [36, 60]}, "tensor a: reaches to byte 60 of the data, the file has 48: it is cut"),
    ],
)
def test_an_entry_that_cannot_be(tmp_path: Path, entry: Any, said: str) -> None:
    path = write(tmp_path, {"a": entry})
    with pytest.raises(WeightsError) as refused:
        safetensors_file.load(path)
    assert str(refused.value).startswith(f"{path}: ") and said in str(refused.value)


@pytest.mark.parametrize(
    ("header", "length", "said"),
    [
        (b"{}", 2**60, "a header of 1152921504606846976 bytes: at most 4194304; is it a safetensors file?"),
        (b"{}", 4000, "a header of 4000 bytes, 50 are left: the file is cut"),
        (b"[" * 100_000, None, "the header is nested too deeply"),
        (b"[]", None, "the header is no JSON object"),
        (b'{"a": 1, "a": 2}', None, "the header is no JSON: a key stands there twice"),
        (b'{"a"', None, "the header is no JSON"),
        (b"\xff\xfe", None, "the header is no JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", None, "the header is no JSON"),
    ],
)
def test_a_header_that_cannot_be(tmp_path: Path, header: bytes, length: int | None, said: str) -> None:
    path = write(tmp_path, header, length=length)
    with pytest.raises(WeightsError) as refused:
        safetensors_file.load(path)
    assert str(refused.value).startswith(f"{path}: {said}")


def test_tensors_that_overlap(tmp_path: Path) -> None:
    path = write(tmp_path, {"a": SOUND, "b": {**SOUND, "data_offsets": [20, 44]}})
    with pytest.raises(WeightsError, match="tensor b overlaps a: an offset is wrong"):
        safetensors_file.load(path)


def test_a_type_that_is_no_weight_is_refused_when_it_is_read(tmp_path: Path) -> None:
    header = {"a": {"dtype": "I8", "shape": [4], "data_offsets": [0, 4]}, "b": {**SOUND, "data_offsets": [4, 28]}}
    made = safetensors_file.load(write(tmp_path, header))
    with pytest.raises(WeightsError, match="tensor a: dtype=I8: only F32, F16, BF16 can be read as weights"):
        made["a"].read_into(np.empty(4, np.float32))
    made["b"].read_into(np.empty((2, 3), np.float32))


def test_files_that_are_none(tmp_path: Path) -> None:
    short = tmp_path / "short.safetensors"
    short.write_bytes(b"abc")
    pipe = tmp_path / "pipe.safetensors"
    os.mkfifo(pipe)
    for path, said in ((short, "3 bytes"), (pipe, "no such file"), (tmp_path / "none.safetensors", "no such file")):
        with pytest.raises(WeightsError, match=said):
            safetensors_file.load(path)


def test_a_name_with_control_characters_does_not_reach_the_terminal(tmp_path: Path) -> None:
    with pytest.raises(WeightsError) as refused:
        safetensors_file.load(write(tmp_path, {"\x1b[31m": 5}))
    assert "\x1b" not in str(refused.value)


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, {"a": SOUND, "b": {**SOUND, "data_offsets": [24, 48]}})
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(WeightsError, match=r"bytes|it is cut"):
            safetensors_file.load(path)


def test_huge_claims_take_no_memory(tmp_path: Path) -> None:
    huge = {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}
    path = write(tmp_path, {f"t{number}": huge for number in range(1000)})
    tracemalloc.start()
    with pytest.raises(WeightsError, match="it is cut"):
        safetensors_file.load(path)
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()
