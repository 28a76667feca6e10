"""Why a report of Nsight Systems is missing, from what the tool said and left, the surest sign first."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

from runner.profile import nvtx
from runner.profile.base import Ended, Launch, ProfileSettings
from runner.profile.nsys_session import SessionWindow
from runner.profile.report import last_words

UNFINISHED = ".qdstrm"
"""Suffix of what is left when a report's last step, the import, did not run."""
LOST_EVENTS = "Errors occurred while processing the raw events"
"""The tool's words, on its output, when what it collected could not all be imported."""
FULL = 8 << 20
"""Bytes. With less left on its disk this tool fails without saying why, or hangs (seen with 2023.4)."""


def why_missing(launch: Launch, ended: Ended, settings: ProfileSettings, version: str) -> str:
    """Cause and remedy. ``version``: of the tool."""
    if full := disk_full(launch.scratch, ended.output):
        return full
    if ended.timed_out:
        return (
            f"the profiled process did not end within profiler.timeout_s={settings.timeout_s:g} "
            "and was killed; raise profiler.timeout_s or lower profiler.steps"
        )
    if isinstance(launch.window, SessionWindow) and launch.window.problem:
        return f"{launch.window.problem}; profile again"
    said = last_words(ended.output)
    words = f" ({said})" if said else " (it said nothing)"
    if ended.problem:
        return f"{_subject(launch)} failed while being profiled: {ended.problem}{words if ended.returncode else ''}"
    if ended.returncode is None:
        return f"the profiled process was killed{words}; profile again"
    # A shell and nsys itself add 128 to the signal that ended what they ran.
    if ended.returncode < 0 or ended.returncode > 128:
        number = -ended.returncode if ended.returncode < 0 else ended.returncode - 128
        return f"nsys was killed by {_signal(number)}{words}; profile again"
    if any(path.suffix == UNFINISHED for path in launch.scratch.iterdir()):
        return (
            "nsys collected, but its importer is missing or lacks a library (libssh-4 on Debian). Install the "
            f"complete package nsight-systems-cli; a {UNFINISHED} file opens in nsys-ui on another machine"
        )
    if ended.returncode > 0:
        return f"nsys ended with code {ended.returncode}{words}; mend that, and profile again"
    return _never_opened(launch, settings, version) or f"nsys ended well and wrote none{words}; profile again"


def disk_full(scratch: Path, output: str) -> str:
    """That the disk is full and what to do, where the tool said so in its ``output`` or it is seen."""
    if "No space left on device" in output or shutil.disk_usage(scratch).free < FULL:
        return f"the disk that holds {scratch.parent} is full; free space, or set TMPDIR to another disk"
    return ""


def lost_events(version: str) -> str:
    """Why the report of a program may lack kernels: seen when the program's CUDA libraries were newer than the tool."""
    return (
        f"nsys {version} could not process all events that it collected, so kernels may be missing: use "
        "an Nsight Systems as new as the CUDA libraries that the program loads, or profiler=ncu"
    )


def failed_program(launch: Launch, ended: Ended) -> str:
    """How a profiled program went wrong that left a report all the same; empty when it did not, and for a worker, whose
    report of one variant is as good whatever became of the next."""
    if _subject(launch) == "the worker":
        return ""
    if ended.problem:
        return f"the program failed while being profiled: {ended.problem}"
    # A server is ended by a signal.
    if ended.returncode and not isinstance(launch.window, SessionWindow):
        return f"the program ended with code {ended.returncode} while being profiled"
    return ""


def _subject(launch: Launch) -> str:
    return "the program" if launch.captures[0].holds == "anything" else "the worker"


def _never_opened(launch: Launch, settings: ProfileSettings, version: str) -> str:
    """The reason where the collection waits for something of the worker's; empty where it does not."""
    option = next((part for part in launch.command if part.startswith("--capture-range=")), "")
    if not option:
        return ""
    what = "cuProfilerStart" if option.endswith("cudaProfilerApi") else f"the range {nvtx.CAPTURE}"
    return f"nsys never saw {what}; {nvtx.unrecorded(nvtx.version(), version) or 'profile again'}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
