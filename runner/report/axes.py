"""What a sweep varied, read off its results: columns of the table, axes of the plots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runner.result.model import Result
from runner.result.names import GROUP_KEYS, short_names

GROUPS = ("gpu", "backend", "model", "shape")
MISSING = object()


def value(result: Result, key: str, names: Sequence[str] = ()) -> Any:
    """The result's parameter or group. A result that was refused has no parameters: then its overrides tell.

    ``names`` are the long names of ``key``. Returns ``MISSING`` when nothing says.
    """
    if key in result.params:
        return result.params[key]
    if key in GROUPS and getattr(result, key):
        return getattr(result, key)
    for override in result.overrides:
        path, equals, text = override.lstrip("+").partition("=")
        if equals and path.rsplit(".", 1)[-1] in (key, *names):
            return _number(text)
    return MISSING


def columns(results: Sequence[Result], swept: Sequence[str] = ()) -> list[str]:
    """Parameters and groups that differ, the swept ones first. What merely follows from the model is left out."""
    aliases = long_names(results)
    differing = [key for key in _candidates(results) if len(_distinct(results, key, aliases)) > 1]
    if "model" in differing:
        differing = [
            key
            for key in differing
            if key == "model" or _named(key, swept, aliases) or not _follows(results, key, "model", aliases)
        ]
    if "gpu" in differing and "backend" in differing:
        differing.remove("backend")
    return sorted(differing, key=lambda key: not _named(key, swept, aliases))


def axes(results: Sequence[Result], swept: Sequence[str] = ()) -> list[str]:
    """Numeric columns that vary on their own: of those that move together only the first."""
    aliases = long_names(results)
    found: list[str] = []
    for key in columns(results, swept):
        if key in GROUPS or key == "seed" or not all(_is_number(v) for v in _distinct(results, key, aliases)):
            continue
        if not any(
            _follows(results, key, other, aliases) and _follows(results, other, key, aliases) for other in found
        ):
            found.append(key)
    return found


def long_names(results: Sequence[Result]) -> dict[str, list[str]]:
    """Letter → the long names that go with it in every result: ``{"T": ["context"]}``."""
    found: dict[str, list[str]] = {}
    shorts = [short_names(result.params) for result in results if result.params]
    for key in dict.fromkeys(key for short in shorts for key in short):
        letters = {short[key] for short in shorts if key in short}
        if letters != {key} and len(letters) == 1:
            found.setdefault(letters.pop(), []).append(key)
    return found


def _candidates(results: Sequence[Result]) -> list[str]:
    aliased = {name for names in long_names(results).values() for name in names}
    keys = dict.fromkeys(key for result in results for key in result.params)
    return [*GROUPS, *(key for key in keys if key not in aliased and key not in GROUP_KEYS[:-1])]


def _distinct(results: Sequence[Result], key: str, aliases: dict[str, list[str]]) -> list[Any]:
    values = [value(result, key, aliases.get(key, [])) for result in results]
    return list(dict.fromkeys(v for v in values if v is not MISSING))


def _follows(results: Sequence[Result], key: str, other: str, aliases: dict[str, list[str]]) -> bool:
    """True when ``other`` decides ``key``: no value of ``other`` goes with two values of ``key``."""
    seen: dict[Any, Any] = {}
    for result in results:
        a, b = value(result, other, aliases.get(other, [])), value(result, key, aliases.get(key, []))
        if MISSING not in (a, b) and seen.setdefault(a, b) != b:
            return False
    return True


def _named(key: str, swept: Sequence[str], aliases: dict[str, list[str]]) -> bool:
    last = {path.rsplit(".", 1)[-1] for path in swept}
    return key in last or bool(last.intersection(aliases.get(key, [])))


def _is_number(candidate: Any) -> bool:
    return isinstance(candidate, (int, float)) and not isinstance(candidate, bool)


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
