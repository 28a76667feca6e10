"""What a GGUF file of weights may not be; its header's own tests are ``tests/estimate/test_gguf_header.py``."""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
import pytest

from runner.estimate import gguf_file
from runner.weights import gguf_tensors
from runner.weights.errors import WeightsError
from runner.weights.stacked import buffer, verify
from tests.weights.models import DIMS, buffers, tensors, write_gguf


def made(folder: Path, stored: str = "F32") -> Path:
    path = folder / "m.gguf"
    write_gguf(path, tensors(buffers()), type_of=lambda name: stored)
    return path


def test_a_file_of_the_packages_own_writer(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_token_list(["a", "Ġb"])
    writer.add_custom_alignment(64)
    values: dict[str, npt.NDArray[Any]] = {
        "v": np.arange(5, dtype=np.float32),
        "h": np.arange(12, dtype=np.float16).reshape(3, 4),
    }
    for name, value in values.items():
        writer.add_tensor(name, value)
    whole = np.random.default_rng(3).normal(size=(4, 2, 64)).astype(np.float32)
    packed = gguf.quants.quantize(whole, gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("q", packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found = gguf_tensors.load(path)
    expected = {**values, "q": gguf.quants.dequantize(packed, gguf.GGMLQuantizationType.Q8_0)}
    assert set(found) == set(expected)
    for name, value in expected.items():
        out = np.empty(found[name].shape, np.float32)
        found[name].read_into(out)
        np.testing.assert_array_equal(out, value)
    assert gguf_file.load(path, ["tokenizer.ggml.tokens"]).values["tokenizer.ggml.tokens"] == ["a", "Ġb"]


def test_a_file_without_its_data(tmp_path: Path) -> None:
    path = made(tmp_path)
    whole = path.read_bytes()
    header = whole.index(np.ascontiguousarray(buffers()["embedding"]).tobytes())
    path.write_bytes(whole[:header])
    with pytest.raises(WeightsError, match="the file ends with its header: its tensors are not there"):
        gguf_tensors.load(path)
    path.write_bytes(whole[: header + 1000])
    with pytest.raises(WeightsError, match=r"the tensors' data: reaches to byte .*: it is cut, or an offset is wrong"):
        gguf_tensors.load(path)


def test_tensors_that_overlap(tmp_path: Path) -> None:
    path = made(tmp_path)
    raw = bytearray(path.read_bytes())
    at = raw.index(b"output.weight") + len(b"output.weight") + 4 + 2 * 8 + 4
    raw[at : at + 8] = struct.pack("<Q", 32)
    path.write_bytes(raw)
    with pytest.raises(WeightsError, match=r"tensor output\.weight overlaps token_embd\.weight: an offset is wrong"):
        gguf_tensors.load(path)


def test_one_of_several_files(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    write_gguf(path, tensors(buffers()), keys={"split.count": 3})
    with pytest.raises(WeightsError, match=r"split\.count=3: one of several files of a model; merge them first"):
        verify(str(path))


def test_quantised_types_need_the_package_and_plain_ones_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.gguf"
    write_gguf(path, tensors(buffers()), type_of=lambda name: "Q8_0" if "token_embd" in name else "F16")
    monkeypatch.setitem(sys.modules, "gguf", None)
    buffer(str(path), "lm_head", DIMS["lm_head"])
    with pytest.raises(WeightsError) as refused:
        buffer(str(path), "embedding", DIMS["embedding"])
    assert str(refused.value) == (
        f"{path}: tensor token_embd.weight: type Q8_0 is read with the gguf package: "
        "pip install 'gpu-kernel-runner[weights]'"
    )


def test_an_architecture_of_another_kind(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    write_gguf(path, tensors(buffers()), kind="mamba")
    with pytest.raises(WeightsError, match=r"general\.architecture=mamba: "):
        verify(str(path))


def test_a_type_without_a_decoder(tmp_path: Path) -> None:
    decode = gguf_tensors._decoder("m.gguf: tensor a", "I8")
    with pytest.raises(WeightsError, match=r"m\.gguf: tensor a: type I8: cannot be dequantised"):
        decode(np.zeros((1, 32), np.uint8))
