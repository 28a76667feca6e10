"""Data folders are found in a checkout and in an installed wheel."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner import paths


def test_in_this_checkout(repository: Path) -> None:
    assert paths.conf_dir() == repository / "conf"
    assert paths.cuda_src_dir() == repository / "cuda_src"
    assert paths.experiments_dir() == repository / "experiments"
    assert paths.project_dir() == repository


def test_in_a_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site-packages" / "runner"
    (package / "conf").mkdir(parents=True)
    (package / "cuda_src").mkdir()
    monkeypatch.setattr(paths, "PACKAGE", package)
    monkeypatch.chdir(tmp_path)
    assert paths.conf_dir() == package / "conf"
    assert paths.cuda_src_dir() == package / "cuda_src"
    assert paths.experiments_dir() is None
    assert paths.project_dir() == tmp_path


def test_an_incomplete_installation_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "PACKAGE", tmp_path / "runner")
    with pytest.raises(FileNotFoundError, match="the folder 'conf' is missing"):
        paths.conf_dir()
