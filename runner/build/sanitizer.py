"""Reading an address sanitizer report: what a user needs of its hundred lines."""

from __future__ import annotations

import re

_ERROR = re.compile(r"ERROR: AddressSanitizer: (\S+)")
_ACCESS = re.compile(r"^(READ|WRITE) of size (\d+)", re.MULTILINE)
_FRAME = re.compile(r"^\s*#\d+ 0x[0-9a-f]+ in (.+?) (/.+?|\S+?):(\d+)(?::\d+)?\s*$", re.MULTILINE)
_PLACE = re.compile(r"^0x[0-9a-f]+ is located ((\d+) bytes .+)$", re.MULTILINE)
_MARK = "/cuda_src/host/"


def report(log: str) -> str:
    """One or two lines out of ``log``: kind, access, kernel, source line, what lies there. Empty without a report.

    >>> report("no such thing")
    ''
    """
    found = _ERROR.search(log)
    if not found:
        return ""
    text = log[found.start() :]
    access = _ACCESS.search(text)
    kind = f"{found[1]}, {access[1].lower()} of {access[2]} bytes" if access else found[1]
    frames = _first_stack(text)
    own = [frame for frame in frames if _MARK not in frame[1]]
    lines = [f"the address sanitizer found a {kind}"]
    if own:
        name, path, line = own[0]
        kernel = _kernel(frames)
        inside = f" in kernel {kernel}" if kernel else ""
        through = f", function {name}" if kernel and name != kernel else ""
        lines[0] += f"{inside} at {path}:{line}{through}"
    places = _PLACE.findall(text)
    if places:  # one for each neighbour; the nearest is the one that was meant
        lines.append(f"  the address is {min(places, key=lambda place: int(place[1]))[0]}")
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
