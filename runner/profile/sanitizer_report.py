"""Reading what compute-sanitizer wrote: its findings with their repetitions, and whether it came to its end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from runner.result.model import Finding

_MARK = "========="
_SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: ([\d,]+) (?:errors?|hazards?)\b")
_NOT_PRINTED = re.compile(r"SUMMARY: ([\d,]+) errors? (?:was|were) not printed")
_PLACE = re.compile(r"(?:at|Device Frame:) (.+?)(?:\+0x[0-9a-f]+)?(?: in (\S+))?(?: \[0x[0-9a-f]+\])?$")
_RACE = re.compile(r"(Error|Warning|Info): Race reported between (\w+) access (at .+)$")
_OTHER_SIDE = re.compile(r"and (\w+) access (at .+?) \[([\d,]+) hazards?\]$")
_API = re.compile(r"(Program hit .+) on CUDA API call to (\w+)")
_LEAK = re.compile(r"Leaked [\d,]+ bytes")
_UNKNOWN = "errors of a kind that the runner cannot read"
_BROKEN = re.compile(
    r"Error: (?!Race reported).+|Internal Sanitizer Error.*|.*(?:Internal error|Device not supported|timed-out).*"
)
"""What the tool says of itself."""
_UNSUPPORTED = re.compile(r"not supported|insufficient permission", re.IGNORECASE)


@dataclass(frozen=True)
class Reading:
    """One log of compute-sanitizer."""

    findings: list[Finding] = field(default_factory=list)
    """Grouped by kind and place, in order of their first report."""
    finished: bool = False
    """The tool wrote its summary."""
    unprinted: int = 0
    """Errors counted beyond those printed."""
    problem: str = ""
    """What the tool could not do, in its own words."""

    @property
    def unsupported(self) -> bool:
        """The problem is this machine, not this run."""
        return bool(_UNSUPPORTED.search(self.problem))


def read(text: str) -> Reading:
    """The whole log; other lines (the program's own output) are passed over.

    >>> read("========= COMPUTE-SANITIZER\\n========= ERROR SUMMARY: 0 errors").finished
    True
    """
    found: list[Finding] = []
    problem = ""
    finished, total, unprinted = False, 0, 0
    for head, rest in _blocks(text):
        if missed := _NOT_PRINTED.search(head):
            unprinted = _number(missed[1])
        elif summary := _SUMMARY.search(head):
            finished, total = True, total + _number(summary[1])
        elif _BROKEN.fullmatch(head):
            problem = problem or head.removeprefix("Error: ")
        elif finding := _finding(head, rest):
            found.append(finding)
    if total and not found:  # a form that is new must not turn a verdict green
        found.append(Finding(_UNKNOWN, count=total))
    return Reading(grouped(found), finished, unprinted, problem)


def grouped(findings: Iterable[Finding]) -> list[Finding]:
    """Findings of one kind and place become one, with the detail of the first."""
    first: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        known = first.setdefault((finding.kind, finding.where), Finding(finding.kind, finding.where, 0, finding.detail))
        known.count += finding.count
    return list(first.values())


def _blocks(text: str) -> list[tuple[str, list[str]]]:
    """Each head line of the tool with the lines indented below it."""
    blocks: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if not line.startswith(_MARK):
            continue
        content = line[len(_MARK) :]
        if not content.strip():
            continue
        if content.startswith("     ") and blocks:
            blocks[-1][1].append(content.strip())
        else:
            blocks.append((content.strip(), []))
    return blocks


def _finding(head: str, rest: Sequence[str]) -> Finding | None:
    """None for what is no finding: the banner, a note."""
    if race := _RACE.fullmatch(head):
        return _race(race, rest)
    if call := _API.search(head):
        return Finding(call[1].rstrip("."), call[2])
    if leak := _LEAK.match(head):
        return Finding("Leaked memory", detail=f"{leak[0].lower().removeprefix('leaked ')} were never freed")
    if not rest or head.lower().startswith(("warning", "note")):
        return None
    device = [line for line in rest if not line.startswith(("Saved host backtrace", "Host Frame"))]
    frames = [line for line in device if line.startswith(("at ", "Device Frame:"))]
    # The last frame is the kernel; those before it are functions that were called from it.
    where = _place(frames[-1]) if frames else ""
    within = [f"in {_place(frame)}" for frame in frames[:-1]]
    others = [line for line in device if line not in frames]
    return Finding(head.rstrip("."), where, 1, "; ".join([*within, *others]))


def _race(head: re.Match[str], rest: Sequence[str]) -> Finding:
    """One race: two or more accesses of one place that nothing orders."""
    sides = [match for line in rest if (match := _OTHER_SIDE.match(line))]
    kinds = " or ".join(dict.fromkeys(side[1].lower() for side in sides))
    level = "" if head[1] == "Error" else f" ({head[1].lower()})"
    return Finding(
        f"Race between {head[2].lower()} and {kinds or 'another access'}{level}",
        _place(head[3]),
        max(1, sum(_number(side[3]) for side in sides)),
        "; ".join(f"{side[1].lower()} at {_place(side[2])}, {side[3]} times" for side in sides),
    )


def _place(line: str) -> str:
    """``at race(int *)+0x120 in faulty.cu:3`` → ``race in faulty.cu:3``."""
    match = _PLACE.match(line)
    if not match:
        return line
    name = _without_parameters(match[1])
    return f"{name} in {match[2]}" if match[2] else name


def _without_parameters(name: str) -> str:
    """``void f<int>(int *)`` → ``void f<int>``: the last pair of brackets goes."""
    if not name.endswith(")"):
        return name
    depth = 0
    for index in range(len(name) - 1, -1, -1):
        depth += (name[index] == ")") - (name[index] == "(")
        if depth == 0:
            return name[:index]
    return name


def _number(text: str) -> int:
    return int(text.replace(",", ""))
