from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from runner.profile import raw
from runner.result import files
from runner.result.model import RawReport


def test_size_and_hash_of_a_file_beside_and_of_one_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_BLOCK", 4)
    content = b"more than one block"
    for variant in ("a", "b"):
        (tmp_path / variant).mkdir()
    (tmp_path / "a" / "x.nsys-rep").write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    assert raw.raw_report(tmp_path / "a", "x.nsys-rep") == RawReport("x.nsys-rep", len(content), digest)
    assert raw.raw_report(tmp_path / "b", "../a/x.nsys-rep") == RawReport("../a/x.nsys-rep", len(content), digest)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        raw.raw_report(tmp_path, "x.nsys-rep")
