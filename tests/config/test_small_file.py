"""Files that a user names: read whole, or refused by name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runner.config.errors import ConfigError
from runner.config.small_file import content


def test_a_file_of_the_limit_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    assert content(tmp_path / "a", "key=a", 5, "a list") == b"12345"


@pytest.mark.parametrize(("usual", "said"), [("", ""), ("a list has three", ": a list has three")])
def test_a_larger_one_is_refused(tmp_path: Path, usual: str, said: str) -> None:
    (tmp_path / "a").write_bytes(b"123456")
    with pytest.raises(ConfigError) as refused:
        content(tmp_path / "a", "key=a", 5, "a list", usual)
    assert str(refused.value) == f"key=a: larger than 5 bytes{said}"


def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "nowhere", tmp_path / "pipe"):
        with pytest.raises(ConfigError, match=r"^key=a: no such file: a list$"):
            content(path, "key=a", 5, "a list")


def test_one_that_cannot_be_read_says_why() -> None:
    with pytest.raises(ConfigError, match=r"^key=a: cannot be read: "):
        content(Path("/proc/self/mem"), "key=a", 5, "a list")
