"""The result document: ``Result`` ⇄ plain JSON values ⇄ ``result.json``, checked field by field.

JSON knows no NaN and no infinity, and neither does this document: a metric or an error figure that is not
finite is left out, and elsewhere it is written as the text ``nan``, ``inf`` or ``-inf``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import math
import os
import re
import sys
import types
import typing
from collections.abc import Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, Union

from runner.result import clock
from runner.result.migration import migrated
from runner.result.model import SCHEMA_VERSION, Result

FILE_NAME = "result.json"
_ID = re.compile(r'\{\n("id": "[^"]*"),\n\Z')

_LARGEST = sys.float_info.max
"""JSON's integers have no end, and a literal like 1e999 is read as infinity."""
T = TypeVar("T")


class DocumentError(ValueError):
    """A document that cannot be read or written; the message names the key and what is wrong with it."""


def to_dict(result: Result) -> dict[str, Any]:
    """The result as JSON values. Raises ``DocumentError`` for a value JSON cannot hold, naming its key."""
    document = {f.name: _plain(getattr(result, f.name), f.name) for f in dataclasses.fields(result)}
    document["metrics"] = {name: value for name, value in document["metrics"].items() if _is_number(value)}
    for check in document["checks"]:
        for key in ("max_abs_err", "max_rel_err", "l2_err"):
            if not _is_number(check[key]):
                check[key] = None
    for series in document["samples"]:
        series["samples_us"] = [value for value in series["samples_us"] if _is_number(value)]
    return document


def from_dict(document: Mapping[str, Any]) -> Result:
    """The result a document describes; one of an older schema is brought to this one where that can be done. Raises
    ``DocumentError`` for another schema version, a key that is missing or unknown, or a value of the wrong type."""
    if not isinstance(document, Mapping):
        raise DocumentError(f"a result document is an object, not a {type(document).__name__}")
    version = document.get("schema_version")
    if version is None:
        raise DocumentError("not a result document: it has no schema_version")
    document = migrated(document)
    if document["schema_version"] != SCHEMA_VERSION:
        age = "older" if isinstance(version, int) and version < SCHEMA_VERSION else "newer"
        raise DocumentError(
            f"schema_version={version!r} is {age} than the one this runner reads ({SCHEMA_VERSION}): "
            "use the runner that wrote it, or run the experiment again"
        )
    result = build(Result, document, "")
    for key, moment in (("started", result.started), ("profile.started", result.profile.started)):
        if moment and not _is_time(moment):
            raise DocumentError(f"{key}: {moment!r} is no time")
    return result


def write(result: Result, folder: Path) -> Path:
    """Writes ``result.json`` into ``folder`` (made when missing): a reader sees the old file or the new one,
    never half of one. Raises ``DocumentError`` when the disk is full or refuses the file."""
    entries = (
        f"{json.dumps(key)}: {json.dumps(value, allow_nan=False, ensure_ascii=False)}"
        for key, value in to_dict(result).items()
    )
    path = folder / FILE_NAME
    write_text(path, "{\n" + ",\n".join(entries) + "\n}\n")  # a line per key: samples stay on one
    return path


def parsed(text: str | bytes, **how: Any) -> Any:
    """What JSON says. Raises ``ValueError``, for lists within lists without end, too."""
    try:
        return json.loads(text, **how)
    except RecursionError as error:
        raise ValueError("lists within lists without end") from error


def read(path: Path) -> Result:
    """Reads a ``result.json``. Raises ``DocumentError`` naming the file."""
    try:
        return from_dict(parsed(path.read_text(encoding="utf-8"), parse_constant=_no_number))
    except OSError as error:
        raise DocumentError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:  # DocumentError, bad JSON and bad UTF-8 alike
        raise DocumentError(f"cannot read {path}: {error}") from error


def _no_number(name: str) -> float:
    """Raises ``DocumentError``: Python's own reader takes NaN and Infinity for numbers, which JSON does not."""
    raise DocumentError(f"{name} is no number in JSON")


def read_id(path: Path) -> str:
    """The ``id`` of a ``result.json``, without the rest of it where ``write`` laid it out. Raises ``DocumentError``
    naming the file."""
    try:
        with path.open(encoding="utf-8") as file:
            head = file.readline() + file.readline()
            found = _ID.match(head)
            document = parsed(f"{{{found[1]}}}" if found else head + file.read())
            return str(document["id"])
    except OSError as error:
        raise DocumentError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise DocumentError(f"cannot read {path}: it has no id") from error


def write_text(path: Path, text: str) -> None:
    """Writes a small file atomically. Raises ``DocumentError``."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # What others wrote may hold half a letter, which no file in UTF-8 can; that is no reason to lose the rest.
        temporary.write_text(text, encoding="utf-8", errors="replace")
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):  # where its folder could not be made, there is nothing to remove
            temporary.unlink(missing_ok=True)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DocumentError(f"cannot write {path}: no space left; free some and run again") from error
        raise DocumentError(f"cannot write {path}: {error.strerror}") from error


def _is_time(text: str) -> bool:
    """Whether it is a time as ISO 8601 writes it, in the years that a clock knows."""
    try:
        clock.read(text).timestamp()
    except (ValueError, OverflowError):
        return False
    return True


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _plain(value: Any, where: str) -> Any:
    """``value`` in JSON's types; numbers that are not finite become text."""
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name), f"{where}.{f.name}") for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(entry, f"{where}.{key}") for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        if all(type(entry) is float and math.isfinite(entry) for entry in value):  # samples: thousands of them
            return list(value)
        return [_plain(entry, f"{where}[{index}]") for index, entry in enumerate(value)]
    if isinstance(value, Path):
        return str(value)
    item = getattr(value, "item", None)  # a NumPy scalar
    if callable(item) and getattr(value, "ndim", 1) == 0:
        return _plain(item(), where)
    raise DocumentError(f"{where}: a {type(value).__name__} cannot be written to JSON")


def build(kind: type[T], document: Any, where: str) -> T:
    """A dataclass from its document, which lies under the key ``where``; missing optional fields take their defaults.
    Raises ``DocumentError``, as ``from_dict``."""
    if not isinstance(document, Mapping):
        raise DocumentError(f"{where or 'document'}: expected an object, found {document!r}")
    hints: dict[str, Any] = _hints(kind)  # type: ignore[arg-type]  # a class is hashable
    unknown = sorted(set(document) - set(hints))
    if unknown:
        raise DocumentError(f"unknown key {_join(where, unknown[0])}; known here: {', '.join(hints)}")
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        path = _join(where, field.name)
        if field.name in document:
            values[field.name] = _value(hints[field.name], document[field.name], path)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise DocumentError(f"key {path} is missing")
    return kind(**values)


def _value(hint: Any, value: Any, where: str) -> Any:
    """``value`` as the type ``hint`` names. Raises ``DocumentError`` when it is of another type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return _value(next(a for a in arguments if a is not type(None)), value, where)
    if origin is list and isinstance(value, list):
        return [_value(arguments[0], entry, f"{where}[{index}]") for index, entry in enumerate(value)]
    if origin is dict and isinstance(value, Mapping):
        return {key: _value(arguments[1], entry, _join(where, key)) for key, entry in value.items()}
    if dataclasses.is_dataclass(hint):
        return build(typing.cast("type[Any]", hint), value, where)
    plain = isinstance(hint, type) and origin is None  # dict[str, Any] passes for a class before Python 3.11
    if plain and issubclass(hint, Enum):
        allowed = [member.value for member in hint]
        if value not in allowed:
            raise DocumentError(f"{where}: {value!r} is none of {', '.join(allowed)}")
        return hint(value)
    if hint is float:
        if _is_number(value) and abs(value) <= _LARGEST:
            return value
    elif plain and isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return value
    name = getattr(origin or hint, "__name__", str(hint))
    raise DocumentError(f"{where}: expected {name}, found {value!r}")


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _join(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key
