"""What a colleague needs to believe a figure and to take it again: machine, versions, commands, raw reports."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from runner.report.markdown import code, table
from runner.report.numbers import digits
from runner.result.model import Result
from runner.result.names import plain

_MACHINE = (
    ("driver", "driver"),
    ("CUDA of the driver", "cuda"),
    ("nvcc", "nvcc"),
    ("host compiler", "host_compiler"),
    ("operating system", "os"),
    ("kernel", "kernel"),
    ("CPU", "cpu"),
    ("cores that may be used", "cores_usable"),
    ("Python", "python"),
)

_SCRATCH = re.compile(r"/[^\s']*/runner-[a-z]+-[a-z0-9_]+")
"""A profiler's private folder in a command line."""


def environment(result: Result) -> str:
    """The machine, its state and the code, as a table."""
    found = result.environment
    rows = [["device", _device(found)]]
    rows += [[title, plain(found[key])] for title, key in _MACHINE if found.get(key)]
    rows += [[f"measured {name}", text] for name, text in _ceilings(found)]
    rows.append(["commit", _commit(found)])
    rows += [[f"package {name}", str(version)] for name, version in (found.get("packages") or {}).items()]
    rows += [[f"variable {name}", str(value)] for name, value in (found.get("variables") or {}).items()]
    return "\n\n".join(filter(None, [table(["", "value"], rows, left=2), _states(found)]))


def _device(found: Mapping[str, Any]) -> str:
    devices = found.get("devices") or []
    names = [str(device.get("name", "")) for device in devices]
    title = (found.get("target") or {}).get("title") or ""
    what = ", ".join(dict.fromkeys(names)) + (f" × {len(names)}" if len(names) > 1 else "")
    return f"{what} ({title})" if title and title not in what else what


def _ceilings(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    ceilings = found.get("ceilings") or {}
    rates = [(f"{name} bandwidth", ceilings.get(f"{name}_gbps")) for name in ("copy", "read", "write")]
    shown = [(name, f"{digits(rate)} GB/s") for name, rate in rates if rate]
    return shown + [(kind, f"{digits(rate)} TFLOP/s") for kind, rate in (ceilings.get("tflops") or {}).items()]


def _commit(found: Mapping[str, Any]) -> str:
    commit = str(found.get("git_commit") or "") or "not a git checkout"
    return commit + (", with uncommitted changes" if found.get("git_dirty") else "")


def _states(found: Mapping[str, Any]) -> str:
    """Clocks, power and health of the GPU before and after the measurement."""
    before, after = (_flat(found.get(key) or {}) for key in ("gpu_state_before", "gpu_state"))
    rows = [[name, before.get(name, "–"), after.get(name, "–")] for name in dict.fromkeys([*before, *after])]
    return table(["GPU", "before", "after"], rows)


def _flat(state: Mapping[str, Any]) -> dict[str, str]:
    return {name: _shown(value) for name, value in state.items() if not isinstance(value, Mapping)}


def _shown(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return plain(value)


def commands(results: Sequence[Result]) -> str:
    """The command that repeats the experiment, what compiled it, and what ran under profilers."""
    first = results[0]
    compiled = [str(command) for command in (first.environment.get("compile_commands") or {}).values()]
    # The variants' commands differ in the tool's scratch folder only.
    said = {_SCRATCH.sub("/…", command): None for result in results for command in result.profile.commands if command}
    profiled = list(said)
    blocks = (("To run it again:", [first.repeat]), ("Profiled with:", profiled), ("Compiled with:", compiled))
    return "\n\n".join(f"{title}\n\n{code(lines)}" for title, lines in blocks if any(lines))


def reports(results: Sequence[Result]) -> str:
    """The raw reports, which need not be kept with the text: path, size, hash. A shared one is listed once."""
    rows = {
        report.sha256: [_path(result, report.path), f"{report.bytes:,}", report.sha256]
        for result in reversed(results)
        for report in result.profile.reports
    }
    return table(["file", "bytes", "SHA-256"], list(reversed(rows.values())))


def _path(result: Result, path: str) -> str:
    """From the experiment's folder; a report of all variants lies with one of them."""
    return path.removeprefix("../") if path.startswith("../") else f"{result.variant}/{path}"
