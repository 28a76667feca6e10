"""Which of a profiled program's processes is the program, and which are the tool's."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import psutil

from runner.plan.model import CommandPlan

_INTERPRETER = 2
"""Words the system may put before a script: its interpreter, and one option."""


def profiled(members: Sequence[psutil.Process], command: CommandPlan, prefix: Sequence[str]) -> list[psutil.Process]:
    """Processes to send a signal to so that the program ends, out of ``members``, oldest first.

    The program is the oldest process with its own command line: the tool's hold that of the tool as well. Where a
    program has renamed itself, every process whose executable does not lie in a folder of the tool. Of a shell also the
    programs that it started, to which it does not pass a signal on.
    """
    own = [process for process in members if _runs(process, command.argv)]
    if own and not command.shell:
        return own[:1]
    below = [process for process in members if not _is_launched(process, prefix)]
    return [process for process in below if not _is_beside(process, prefix)] or below


def _runs(process: psutil.Process, argv: Sequence[str]) -> bool:
    try:
        line = process.cmdline()
    except psutil.Error:
        return False  # gone meanwhile
    if len(line) > len(argv) + _INTERPRETER or len(line) < len(argv):
        return False
    return line[len(line) - len(argv) + 1 :] == list(argv[1:]) and any(
        os.path.basename(word) == os.path.basename(argv[0]) for word in line[: len(line) - len(argv) + 1]
    )


def _is_launched(process: psutil.Process, prefix: Sequence[str]) -> bool:
    """Whether it runs the tool's command line, or what stands before that (``unshare``)."""
    try:
        line = process.cmdline()
    except psutil.Error:
        return True  # gone meanwhile, or not ours to see: not ours to end
    return any(line[: len(part)] == list(part) for part in _parts(prefix))


def _parts(prefix: Sequence[str]) -> list[Sequence[str]]:
    """``prefix``, and the ends of it that begin with a program: what ``unshare … nsys profile …`` starts in turn."""
    return [prefix[place:] for place, word in enumerate(prefix) if place == 0 or os.path.isabs(word)]


def _is_beside(process: psutil.Process, prefix: Sequence[str]) -> bool:
    """Whether its executable lies where the tool's does: the tool's own agents."""
    folders = {str(Path(word).resolve().parent) for word in prefix if os.path.isabs(word) and os.access(word, os.X_OK)}
    try:
        return str(Path(process.exe()).parent) in folders
    except psutil.Error:
        return True  # gone meanwhile, or not ours to see
