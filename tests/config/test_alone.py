"""One command at a time in a folder of results."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.config.alone import claim
from runner.config.errors import ConfigError

HOLD = """
import sys, pathlib
from runner.config.alone import claim
claim(pathlib.Path(sys.argv[1]))
print(1, flush=True)
input()
"""


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A command that writes in the test's folder."""
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None and process.stdout.readline() == b"1\n"
        yield process
        process.kill()


def test_a_second_command_is_refused_until_the_first_is_gone(tmp_path: Path, other: subprocess.Popen[bytes]) -> None:
    with pytest.raises(ConfigError) as refused:
        claim(tmp_path)
    assert str(refused.value).startswith(f"{tmp_path}: another command is writing its results there; wait for its end")
    other.kill()
    other.wait()
    claim(tmp_path)
    claim(tmp_path)  # one's own is no other's


def test_a_point_of_another_command_is_taken_too(tmp_path: Path, other: subprocess.Popen[bytes]) -> None:
    """``other`` walks a sweep; then it is the one that runs in what is to be a point of ours."""
    for folder, points in ((tmp_path / "0", []), (tmp_path / "a/b", [tmp_path / "a/b/0", tmp_path])):
        with pytest.raises(ConfigError, match=f"^{tmp_path}: another command is writing"):
            claim(folder, points)
    other.kill()
    other.wait()
    claim(tmp_path / "0")
    claim(tmp_path, [tmp_path / "0"])
