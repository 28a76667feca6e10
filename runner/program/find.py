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
    if not own or command.shell:
        return [process for process in members if not _is_tool(process, prefix)]
    return own[:1]


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


def _is_tool(process: psutil.Process, prefix: Sequence[str]) -> bool:
    folders = {str(Path(word).resolve().parent) for word in prefix if os.sep in word and os.access(word, os.X_OK)}
    try:
        line, program = process.cmdline(), process.exe()
    except psutil.Error:
        return True  # gone meanwhile, or not ours to see: not ours to end
    return (
        line[: len(prefix)] == list(prefix) or str(Path(program).resolve().parent) in folders or line[:1] == ["unshare"]
    )
