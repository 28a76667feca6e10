"""A trace from a file: CSV with a header, or JSON lines (``.jsonl``), with the same names in both.

``COLUMNS`` are needed: arrival in seconds from any moment, and the two lengths in tokens. ``OPTIONAL`` may be there:
requests of one ``group`` begin with the same ``shared`` tokens. Others are not read.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from runner.config.errors import ConfigError
from runner.config.small_file import content
from runner.result.document import parsed
from runner.serving.trace import LATEST_S, LONGEST, MOST_OUTPUT, MOST_REQUESTS, Request, Trace, ordered

COLUMNS = ("arrival_s", "prompt", "output")
OPTIONAL = ("shared", "group")
SIZE_LIMIT = 16 << 20
"""Bytes of a file."""
LINE_LIMIT = 4096
"""Characters of a line."""
_GROUPS = 2**31 - 1
_SHOWN = 40
"""Characters of a value in a message."""


def read(path: Path, key: str = "trace") -> Trace:
    """The trace in ``path``. ``key``: what the user named the file with.

    Raises ``ConfigError`` naming file, line, column, value and what is allowed.
    """
    where = f"{key}={path}"
    text = _text(path, where)
    lines = _json_lines(text, str(path)) if path.suffix == ".jsonl" else _csv_lines(text, str(path), where)
    requests: list[Request] = []
    total = 0
    for place, values in lines:
        if len(requests) == MOST_REQUESTS:
            raise ConfigError(f"{place}: request {MOST_REQUESTS + 1}: a trace has at most {MOST_REQUESTS}")
        requests.append(_request(place, values))
        total += requests[-1].output
        if total > MOST_OUTPUT:
            raise ConfigError(f"{place}: output={requests[-1].output}: a trace has at most {MOST_OUTPUT} output tokens")
    if not requests:
        raise ConfigError(f"{where}: has no requests")
    return ordered(requests)


def _text(path: Path, where: str) -> str:
    wanted = f"a CSV with columns {', '.join(COLUMNS)}, or JSON lines (.jsonl)"
    raw = content(path, where, SIZE_LIMIT, wanted)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{where}: is not text in UTF-8: {error}") from error


def _numbered(text: str, path: str) -> Iterator[tuple[str, str]]:
    """(place, line) of every line that is not blank."""
    for number, line in enumerate(io.StringIO(text), 1):
        place = f"{path}, line {number}"
        if len(line) > LINE_LIMIT:
            raise ConfigError(f"{place}: longer than {LINE_LIMIT} characters")
        if line.strip():
            yield place, line


def _csv_lines(text: str, path: str, where: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """A request's cells stand on one line: a quoted cell does not run on into the next."""
    names: Sequence[str] | None = None
    for place, line in _numbered(text, path):
        try:
            (cells,) = csv.reader([line], strict=True)
        except csv.Error as error:
            raise ConfigError(f"{place}: is no line of a CSV file: {error}") from error
        cells = [cell.strip() for cell in cells]
        if names is None:
            names = cells
            _check_header(where, names)
        elif len(cells) != len(names):
            raise ConfigError(f"{place}: has {len(cells)} cells where the header has {len(names)}")
        else:
            yield place, dict(zip(names, cells, strict=True))


def _check_header(where: str, names: Sequence[str]) -> None:
    absent = [name for name in COLUMNS if name not in names]
    if absent:
        raise ConfigError(f"{where}: has no column {', '.join(absent)}; needed are {', '.join(COLUMNS)}")
    twice = [name for name in (*COLUMNS, *OPTIONAL) if names.count(name) > 1]
    if twice:
        raise ConfigError(f"{where}: column {twice[0]} is there twice")


def _json_lines(text: str, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for place, line in _numbered(text, path):
        try:
            values = parsed(line)
        except ValueError as error:
            raise ConfigError(f"{place}: is not JSON: {error}") from error
        if not isinstance(values, dict):
            raise ConfigError(f"{place}: {_shown(values)}: must be an object with {', '.join(COLUMNS)}")
        absent = [name for name in COLUMNS if name not in values]
        if absent:
            raise ConfigError(f"{place}: has no {', '.join(absent)}; needed are {', '.join(COLUMNS)}")
        yield place, values


def _request(place: str, values: Mapping[str, Any]) -> Request:
    prompt = _count(place, values, "prompt", 1, LONGEST)
    return Request(
        index=0,
        arrival_s=_seconds(place, values),
        prompt=prompt,
        output=_count(place, values, "output", 1, LONGEST),
        shared=_count(place, values, "shared", 0, prompt) if "shared" in values else 0,
        group=_count(place, values, "group", 0, _GROUPS) if "group" in values else 0,
    )


def _count(place: str, values: Mapping[str, Any], name: str, least: int, most: int) -> int:
    value = values[name]
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 10:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigError(f"{place}: {name}={_shown(values[name])}: must be a whole number from {least} to {most}")
    return value


def _seconds(place: str, values: Mapping[str, Any]) -> float:
    given = values["arrival_s"]
    try:
        value = float(given) if isinstance(given, (str, int, float)) and not isinstance(given, bool) else math.nan
    except (ValueError, OverflowError):
        value = math.nan
    if not 0 <= value <= LATEST_S:
        raise ConfigError(f"{place}: arrival_s={_shown(given)}: must be seconds from 0 to {LATEST_S:g}")
    return value


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
