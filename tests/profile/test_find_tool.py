from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runner.profile import find_tool
from runner.profile.find_tool import Found, Missing
from runner.profile.nsys import TOOL

VERSION = 'echo "NVIDIA Nsight Systems version {0}"'


@pytest.fixture(autouse=True)
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("RUNNER_NSYS", "CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(find_tool, "_ROOTS", (str(tmp_path / "opt"),))
    find_tool._version.cache_clear()
    yield
    find_tool._version.cache_clear()


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str, str], Path]:
    def make(place: str, body: str) -> Path:
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return path

    return make


def test_nothing_found_gives_the_install_hint() -> None:
    missing = TOOL.find()
    assert isinstance(missing, Missing)
    assert "no nsys was found" in missing.what
    assert "nsight-systems-cli" in missing.hint
    assert not missing.broken
    assert str(missing) == f"{missing.what}; {missing.hint}"


def test_the_one_on_the_path_wins(program: Callable[[str, str], Path]) -> None:
    program("opt/nsight-systems-2025.1/bin/nsys", VERSION.format("2025.1.1"))
    path = program("bin/nsys", VERSION.format("2023.4.4.54-234433681190v0"))
    assert TOOL.find() == Found(path, "2023.4.4.54-234433681190v0")


def test_a_wrapper_that_fails_is_passed_over_for_the_newest_installed(
    program: Callable[[str, str], Path],
) -> None:
    program("bin/nsys", "echo 'nsys: Nsight Systems is not installed' >&2; exit 1")
    program("opt/nsight-systems/2023.4/target-linux-x64/nsys", VERSION.format("2023.4.1"))
    newest = program("opt/nsight-systems/2025.1/target-linux-x64/nsys", VERSION.format("2025.1.1"))
    assert TOOL.find() == Found(newest, "2025.1.1")


def test_only_a_broken_one_is_named_with_its_message(program: Callable[[str, str], Path]) -> None:
    path = program("bin/nsys", "echo 'libfoo.so: cannot open shared object file' >&2; exit 127")
    missing = TOOL.find()
    assert isinstance(missing, Missing)
    assert missing.broken
    assert str(path) in missing.what
    assert "libfoo.so" in missing.what


def test_a_chosen_one_is_never_replaced_by_another(
    program: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    program("bin/nsys", VERSION.format("2023.4.1"))
    monkeypatch.setenv("RUNNER_NSYS", "/not/there/nsys")
    missing = TOOL.find()
    assert isinstance(missing, Missing)
    assert missing.broken
    assert "RUNNER_NSYS=/not/there/nsys" in missing.what
    assert "no such file" in missing.what


def test_one_that_hangs_is_given_up_once(program: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find_tool, "VERSION_S", 0.3)
    path = program("bin/nsys", 'echo asked >> "$0.log"; exec /bin/sleep 30')
    for _ in range(2):
        missing = TOOL.find()
        assert isinstance(missing, Missing)
        assert "did not tell its version within 0.3 s" in missing.what
    assert path.with_name("nsys.log").read_text() == "asked\n"
