"""Keeps what is private out of a report, and ends what a tool leaves behind.

Nsight Systems stores in every report the environment and the command line of each process it can see, the
user's shells included (seen with 2023.4; no option turns it off). A report is made to be shared, so:

* variables that look like credentials are blanked for the tool and the worker;
* the tool runs in a process namespace of its own where the kernel allows it, and sees only its own processes.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from runner.profile import processes
from runner.result.environment import is_secret

MARK = "RUNNER_PROFILE_SCRATCH"
"""Variable with the scratch folder that a process of a tool belongs to."""
SWITCH = "RUNNER_PROFILE_ISOLATE"
"""``0`` runs the tool in the ordinary process namespace."""
_NAMESPACE = ("--pid", "--fork", "--mount-proc", "--kill-child")
_WAYS = (
    ("unshare", *_NAMESPACE),
    ("unshare", "--user", "--map-current-user", *_NAMESPACE),
)


def namespace_prefix() -> tuple[str, ...]:
    """Command line that starts a program seeing only itself and its children; empty where not allowed.

    Killing the started process ends everything within.
    """
    return () if os.environ.get(SWITCH) == "0" else _working_way()


@lru_cache(maxsize=1)
def _working_way() -> tuple[str, ...]:
    for way in _WAYS:
        try:
            done = subprocess.run(
                [*way, "true"], capture_output=True, timeout=10, check=False, stdin=subprocess.DEVNULL
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return way
    return ()


def enter(scratch: Path) -> tuple[str, ...] | None:
    """Command line that starts a program among the processes of a tool that has this scratch folder: in their process
    namespace where they have one of their own. None when there are no such processes."""
    found = processes.marked(MARK, str(scratch))
    for process in found:
        try:
            if _namespace(process.pid, "pid") == _namespace("self", "pid"):
                continue
            user = _namespace(process.pid, "user") != _namespace("self", "user")
        except OSError:
            continue  # gone meanwhile
        way = ("--user", "--preserve-credentials") if user else ()
        return ("nsenter", f"--target={process.pid}", *way, "--pid", "--mount")
    return () if found else None


def _namespace(process: int | str, kind: str) -> str:
    return os.readlink(f"/proc/{process}/ns/{kind}")


def of_scratch(scratch: Path, temporary: Path | None = None) -> dict[str, str]:
    """Variables of a tool's process: by them it and all it starts are known as the scratch folder's, and its temporary
    files lie there, or in ``temporary``."""
    return {MARK: str(scratch), "TMPDIR": str(temporary or scratch)}


def blanked(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables to set empty so that no credential reaches a report."""
    return {name: "" for name, value in environment.items() if value and is_secret(name, value)}


def end_all(scratch: Path) -> int:
    """Kills every process of a tool that has this scratch folder, see ``of_scratch``; returns how many.

    Needed where there is no namespace: the agent and the profiled program have sessions of their own, so the
    process group of the tool does not reach them.
    """
    found = processes.marked(MARK, str(scratch))
    processes.end(found)
    return len(found)
