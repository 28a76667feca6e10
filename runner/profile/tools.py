"""The profilers by name, and the two that need no process of their own."""

from __future__ import annotations

from collections.abc import Sequence

from runner.plan.model import BackendName
from runner.profile import nvtx
from runner.profile.base import Capture, Ended, Launch, Profiler, ProfileSettings
from runner.profile.nsys import NsysProfiler
from runner.result.model import Profile, ProfileStatus

TOOLS = ("none", "nvtx", "nsys")


def open_profiler(settings: ProfileSettings) -> Profiler:
    """Raises ``ValueError`` naming the tools there are."""
    if settings.tool == "nsys":
        return NsysProfiler(settings)
    if settings.tool == "nvtx":
        return NvtxProfiler()
    if settings.tool == "none":
        return NoProfiler()
    raise ValueError(f"profiler.tool={settings.tool!r}: allowed are {', '.join(TOOLS)}")


def unavailable(profiler: Profiler, captures: Sequence[Capture]) -> list[Profile]:
    """The profiles of a tool that cannot be used here; timings and exit code stay as they are."""
    reason = profiler.unavailable()
    return [Profile(ProfileStatus.UNAVAILABLE, reason, tool=profiler.name) for _ in captures]


class NoProfiler:
    """``profiler=none``."""

    name = "none"
    own_process = False

    def unavailable(self) -> str:
        return ""

    def launch(self, variants: int, backend: BackendName) -> Launch:
        raise ValueError(f"profiler={self.name} starts no process")

    def collect(self, launch: Launch | None, captures: Sequence[Capture], ended: Ended) -> list[Profile]:
        return [Profile(ProfileStatus.OFF) for _ in captures]


class NvtxProfiler:
    """``profiler=nvtx``: the ranges that the worker emits anyway are wanted, for a tool that the user puts round the
    command; here they are only found possible or not."""

    name = "nvtx"
    own_process = False

    def unavailable(self) -> str:
        return nvtx.unrecorded(nvtx.version(), "")

    def launch(self, variants: int, backend: BackendName) -> Launch:
        raise ValueError(f"profiler={self.name} starts no process")

    def collect(self, launch: Launch | None, captures: Sequence[Capture], ended: Ended) -> list[Profile]:
        title = f"nvtx {nvtx.version()}"
        return [Profile(ProfileStatus.OK, tool=title, ranges=[capture.range]) for capture in captures]
