"""Compilers that work, fail or are not there; folders and space."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from runner.doctor import host
from runner.doctor.model import State


def test_a_kernel_is_compiled_and_loaded() -> None:
    answer = host.compiler()
    assert answer.state is State.OK, answer


def test_a_compiler_that_is_not_there_has_an_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    answer = host.compiler()
    assert answer.state is State.MISSING
    assert "CXX=no-such-compiler" in answer.found
    assert "apt-get install g++" in answer.mend or "xcode-select" in answer.mend


def test_a_compiler_that_fails_is_broken(pretend: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    body = '[ "$1" = --version ] && { echo "old 1.0"; exit 0; }; echo "error: unknown option -std=c++17"; exit 1'
    monkeypatch.setenv("CXX", str(pretend("g++", body)))
    answer = host.compiler()
    assert answer.state is State.BROKEN
    assert "unknown option -std=c++17" in answer.found


def test_clang_has_no_sanitizer_for_us(pretend: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", str(pretend("clang++", "echo clang version 17")))
    answer = host.sanitizer()
    assert answer.state is State.MISSING
    assert "needs g++" in answer.found and answer.mend


def test_folders_that_are_not_there_yet_may_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert host.outputs().state is State.OK
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RUNNER_CACHE", str(tmp_path / "file" / "cache"))
    (cache,) = [probe for probe in host.probes() if probe.name == "compile cache"]
    answer = cache.answer()
    assert answer.state is State.BROKEN
    assert answer.found.startswith(f"{tmp_path / 'file'} cannot be written")
    assert "RUNNER_CACHE" in answer.mend


def test_little_space_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(free=5_000_000))
    answer = host.space()
    assert answer.state is State.BROKEN
    assert "0.0 GB" in answer.found


def test_a_full_disk_is_not_blamed_on_the_compiler(
    pretend: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = 'case "$*" in *--version*) echo "g++ (GCC) 12.2.0";; *) echo "No space left on device"; exit 1;; esac'
    monkeypatch.setenv("CXX", str(pretend("g++", body)))
    answer = host.compiler()
    assert answer.state is State.BROKEN
    assert "no space left" in answer.found and "TMPDIR" in answer.mend
