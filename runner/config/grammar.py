"""Hydra's override grammar: reading one line, writing any plain value so that it comes back the same."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from hydra._internal.grammar.utils import escape_special_characters
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, Quote, QuotedString
from hydra.errors import HydraException


@lru_cache(maxsize=4096)
def parse_line(line: str) -> Override:
    """Raises Hydra's ``OverrideParseException``."""
    # Kept: the same line comes back for every point that shares it, and a parse takes a millisecond.
    return OverridesParser.create().parse_overrides([line])[0]


def parse_value(line: str) -> Any:
    """The plain value of ``key=value``; None for a sweep, null, or what the grammar refuses."""
    try:
        parsed = parse_line(line)
    except HydraException:
        return None
    return None if parsed.is_sweep_override() else parsed.value()


def element(value: Any) -> str:
    """``value`` as the grammar writes it; text is quoted when it would not come back as the same text."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{escape_special_characters(str(k))}:{element(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(element(item) for item in value) + "]"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _text(value: str) -> str:
    if value and value.isascii() and all(char.isalnum() or char in "_-./" for char in value):
        back = parse_value(f"k={value}")
        if isinstance(back, str) and back == value:
            return value
    return str(QuotedString(text=value, quote=Quote.single).with_quotes())


def line_of(key: str, value: Any) -> str:
    """``key=value`` for any plain value."""
    return f"{key}={element(value)}"
