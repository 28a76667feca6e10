"""What a sweep varied, read off its results: columns of the table, axes of the plots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runner.result.model import Result
from runner.result.names import GROUP_KEYS

GROUPS = ("gpu", "backend", "model", "shape")
MISSING = object()


def value(result: Result, key: str) -> Any:
    """The result's parameter or group. A result that was refused has no parameters: then its overrides tell, by
    the letter or its long name. Returns ``MISSING`` when nothing says."""
    if key in result.params:
        return result.params[key]
    if key in GROUPS and getattr(result, key):
        return getattr(result, key)
    for override in result.overrides:
        path, equals, text = override.lstrip("+").partition("=")
        if equals and path.rsplit(".", 1)[-1] in (key, result.names.get(key)):
            return _number(text)
    return MISSING


def columns(results: Sequence[Result], swept: Sequence[str] = ()) -> list[str]:
    """Parameters and groups that differ, the swept ones first. What merely follows from the model is left out."""
    differing = [key for key in _candidates(results) if len(_distinct(results, key)) > 1]
    if "model" in differing:
        differing = [
            key
            for key in differing
            if key == "model" or _named(results, key, swept) or not _follows(results, key, "model")
        ]
    if "gpu" in differing and "backend" in differing:
        differing.remove("backend")
    if "argv" in differing and any(_follows(results, "argv", key) for key in differing if key != "argv"):
        differing.remove("argv")
    return sorted(differing, key=lambda key: not _named(results, key, swept))


def axes(results: Sequence[Result], swept: Sequence[str] = ()) -> list[str]:
    """Numeric columns that vary on their own: of those that move together only the first."""
    found: list[str] = []
    for key in columns(results, swept):
        if key in GROUPS or key == "seed" or not all(_is_number(v) for v in _distinct(results, key)):
            continue
        if not any(_follows(results, key, other) and _follows(results, other, key) for other in found):
            found.append(key)
    return found


def long_name(results: Sequence[Result], key: str) -> str:
    """What the letter ``key`` stands for: ``context`` for ``T``; empty when it has no long name."""
    return next((result.names[key] for result in results if key in result.names), "")


def _candidates(results: Sequence[Result]) -> list[str]:
    """Groups and letters; of the other entries of ``params`` only the seed and a program's arguments can be worth a
    column."""
    other = {name for result in results for name in result.names.values()} | set(GROUP_KEYS) - {"seed", "argv"}
    keys = dict.fromkeys(key for result in results for key in result.params)
    return [*GROUPS, *(key for key in keys if key not in other)]


def _distinct(results: Sequence[Result], key: str) -> list[Any]:
    values = [value(result, key) for result in results]
    return list(dict.fromkeys(v for v in values if v is not MISSING))


def _follows(results: Sequence[Result], key: str, other: str) -> bool:
    """True when ``other`` decides ``key``: no value of ``other`` goes with two values of ``key``."""
    seen: dict[Any, Any] = {}
    for result in results:
        a, b = value(result, other), value(result, key)
        if MISSING not in (a, b) and seen.setdefault(a, b) != b:
            return False
    return True


def _named(results: Sequence[Result], key: str, swept: Sequence[str]) -> bool:
    """True when an override key of ``swept`` means ``key``."""
    last = {path.rsplit(".", 1)[-1] for path in swept}
    return key in last or long_name(results, key) in last


def _is_number(candidate: Any) -> bool:
    return isinstance(candidate, (int, float)) and not isinstance(candidate, bool)


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
