"""Why Nsight Compute counted nothing or not all, from what it wrote, with the remedy in one sentence."""

from __future__ import annotations

import re

from runner.profile.base import Capture, Ended, Launch, ProfileSettings

NO_KERNEL = "no kernel ran in the profiled part, and kernels are all that Nsight Compute counts"
NOTHING = "No kernels were profiled"
"""The tool's own words for that."""

_DENIED = (
    (
        "ERR_NVGPUCTRPERM",
        "the driver reserves the GPU's performance counters for administrators (ERR_NVGPUCTRPERM): set the module "
        "option NVreg_RestrictProfilingToAdminUsers=0 and reload the nvidia module, or run as root or with the "
        "capability CAP_SYS_ADMIN (docker run --cap-add=SYS_ADMIN); under WSL2 allow it in the NVIDIA Control Panel "
        "of Windows: Developer, Manage GPU Performance Counters",
    ),
    (
        "LibraryNotLoaded",
        "Nsight Compute could not load the driver's library (LibraryNotLoaded): in a container start it with "
        "--gpus all and NVIDIA_DRIVER_CAPABILITIES=compute,utility, else install an Nsight Compute and a driver that "
        "fit each other",
    ),
)
_BUSY = re.compile(r"driver resource unavailable|DriverResourceUnavailable", re.IGNORECASE)
_PREFIX = re.compile(r"^==(ERROR|WARNING)==\s*")


def denied(text: str) -> str:
    """Why no process on this machine may count; empty when one may."""
    return next((reason for word, reason in _DENIED if word in text), "")


def incomplete(log: str) -> str:
    """What a report lacks that holds counters; empty when nothing is known to be lacking."""
    errors = _lines(log, "ERROR")
    return f"some launches could not be counted: {errors[-1]}" if errors else ""


def interrupted(capture: Capture, ended: Ended, timeout_s: float, log: str = "") -> str:
    """Why the counters of this capture cannot be all; empty when it came to its end."""
    if capture.variant in ended.checks:
        return ""
    if ended.timed_out:
        return _late(timeout_s)
    if not ended.problem:
        return ""
    said = _lines(log, "ERROR") or [line.strip() for line in ended.output.splitlines() if line.strip()]
    return f"the worker failed while being profiled: {ended.problem}{_quoted(said)}"


def why_missing(launch: Launch, capture: Capture, ended: Ended, log: str, settings: ProfileSettings) -> str:
    """Why nothing was counted for this capture, the surest sign first; ``NO_KERNEL`` where none was to be expected."""
    text = log + ended.output
    errors = _lines(log, "ERROR")
    failed = interrupted(capture, ended, settings.timeout_s, log)
    if "No space left on device" in text:
        return f"the disk that holds {launch.scratch.parent} is full; free space, or set TMPDIR to another disk"
    if _BUSY.search(text):
        return (
            "another profiler holds the GPU's counters; end it (DCGM: dcgmi profile --pause, and --resume afterwards) "
            "and profile again"
        )
    if failed and not (settings.replay == "range" and errors):
        return failed
    if settings.replay == "range" and ended.returncode is not None:
        return (
            f"no range was profiled{_quoted(errors)}: with profiler.replay=range only kernels, copies, fills, events "
            "and synchronisation may lie in the range (no graphs, stream-ordered allocation, wait values or peer "
            "access); use profiler.replay=kernel"
        )
    if errors:
        return f"ncu failed{_quoted(errors)}; profile again, or with another profiler.sections"
    if ended.returncode is None:
        return f"the profiled process was killed{_quoted(ended.output.splitlines())}; profile again"
    if ended.returncode and NOTHING not in log:
        return f"ncu ended with code {ended.returncode}{_quoted(ended.output.splitlines())}"
    if settings.kernels:
        return f"no kernel was profiled: none matches profiler.kernels={settings.kernels}; choose another expression"
    if settings.launch_skip:
        return f"no kernel was profiled: there are no more than profiler.launch_skip={settings.launch_skip} launches"
    if len(launch.captures) > 1 and capture.holds == "kernels":
        return (
            f"no kernel was profiled within the range {capture.range}: use profiler.reports=variant, which needs no "
            "ranges to tell the variants apart"
        )
    if capture.holds != "kernels":
        return NO_KERNEL
    return f"no kernel was profiled{_quoted(_lines(log, 'WARNING'))}: ncu never saw cuProfilerStart; profile again"


def _late(timeout_s: float) -> str:
    return (
        f"the profiled process did not end within profiler.timeout_s={timeout_s:g} and was killed; raise it, lower "
        "profiler.launch_count, or choose smaller profiler.sections"
    )


def _lines(log: str, kind: str) -> list[str]:
    """The tool's messages of one kind, without their prefix."""
    return [_PREFIX.sub("", line).strip() for line in log.splitlines() if line.startswith(f"=={kind}==")]


def _quoted(lines: list[str]) -> str:
    """The last two things said, without where to read more."""
    said = [line.strip().rstrip(".") for line in lines if line.strip() and "https://" not in line]
    return f" ({'; '.join(said[-2:])})" if said else ""
