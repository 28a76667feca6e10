"""Standard output that cannot be written costs no work and no exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_WORK = """
import sys
from runner import command_line
def work(asked):
    print("first", flush=True)
    print("second")
    print("done", file=sys.stderr)
    return 3
sys.exit(command_line.run("page", "usage", sys.argv[1:], list, work))
"""


def _run(output: int, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _WORK, *words], stdout=output, stderr=subprocess.PIPE, text=True, check=False
    )


def test_a_reader_that_left_changes_nothing() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        assert (_run(writing).returncode, _run(writing).stderr) == (3, "done\n")
        assert (_run(writing, "--help").returncode, _run(writing, "--help").stderr) == (0, "")
    finally:
        os.close(writing)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_said_once() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        found = _run(full)
    finally:
        os.close(full)
    assert found.returncode == 3
    assert found.stderr == (
        "warning: standard output cannot be written: No space left on device; going on without it\ndone\n"
    )
