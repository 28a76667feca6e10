"""Reading an address sanitizer report: what a user needs of its hundred lines."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ERROR = re.compile(r"ERROR: AddressSanitizer: (\S+)")
_ACCESS = re.compile(r"^(READ|WRITE) of size (\d+)", re.MULTILINE)
_FRAME = re.compile(r"^\s*#\d+ 0x[0-9a-f]+ in (.+?) (/.+?|\S+?):(\d+)(?::\d+)?\s*$", re.MULTILINE)
_PLACE = re.compile(r"^0x[0-9a-f]+ is located ((\d+) bytes .+)$", re.MULTILINE)
_MARK = "/cuda_src/host/"


@dataclass(frozen=True)
class Fault:
    """What the address sanitizer ended the process for."""

    kind: str
    """``heap-buffer-overflow, write of 4 bytes``."""
    kernel: str = ""
    """The kernel at fault; empty where it was none."""
    function: str = ""
    """The function within the kernel, or the kernel itself."""
    path: str = ""
    """Source file; empty where the stack has no frame outside the host backend."""
    line: str = ""
    place: str = ""
    """What lies at the address: ``0 bytes after 400-byte region …``."""


def read(log: str) -> Fault | None:
    """The report in ``log``; None without one."""
    found = _ERROR.search(log)
    if not found:
        return None
    text = log[found.start() :]
    access = _ACCESS.search(text)
    kind = f"{found[1]}, {access[1].lower()} of {access[2]} bytes" if access else found[1]
    places = _PLACE.findall(text)
    # One for each neighbour; the nearest is the one that was meant.
    place = min(places, key=lambda place: int(place[1]))[0] if places else ""
    frames = _first_stack(text)
    own = [frame for frame in frames if _MARK not in frame[1]]
    if not own:
        return Fault(kind, place=place)
    function, path, line = own[0]
    return Fault(kind, _kernel(frames), function, path, line, place)


def report(log: str) -> str:
    """One or two lines out of ``log``: kind, access, kernel, source line, what lies there. Empty without a report.

    >>> report("no such thing")
    ''
    """
    fault = read(log)
    if fault is None:
        return ""
    lines = [f"the address sanitizer found a {fault.kind}"]
    if fault.path:
        inside = f" in kernel {fault.kernel}" if fault.kernel else ""
        through = f", function {fault.function}" if fault.kernel and fault.function != fault.kernel else ""
        lines[0] += f"{inside} at {fault.path}:{fault.line}{through}"
    if fault.place:
        lines.append(f"  the address is {fault.place}")
    return "\n".join(lines)


def _first_stack(text: str) -> list[tuple[str, str, str]]:
    """(function without its parameters, path, line) of each frame of the report's first stack."""
    frames: list[tuple[str, str, str]] = []
    for line in text.splitlines():
        frame = _FRAME.match(line)
        if frame:
            frames.append((frame[1].split("(")[0], frame[2], frame[3]))
        elif frames:
            break
    return frames


def _kernel(frames: list[tuple[str, str, str]]) -> str:
    """The function that the host backend called: the last one before its own frames, which end the stack."""
    names: list[str] = []
    for name, path, _ in frames:
        if path.endswith("/cuda_src/host/unit.h"):
            break
        if _MARK not in path:
            names.append(name)
    return names[-1] if names else ""
