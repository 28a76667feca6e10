"""Parameters as people read them: letters beside the long names they are bound to, numbers without decoration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GROUP_KEYS = ("dtype", "variant", "kernel", "gpu", "model", "shape", "backend", "seed")
"""Entries of ``Result.params`` that are no dimension of the family."""


def short_names(params: Mapping[str, Any]) -> dict[str, str]:
    """Every parameter → the name to show: the letter for the long name that follows it with the same value.

    >>> short_names({"B": 1, "batch": 1, "T": 4096, "context": 4096, "G": 64})
    {'B': 'B', 'batch': 'B', 'T': 'T', 'context': 'T', 'G': 'G'}
    """
    found: dict[str, str] = {}
    letter = ""
    for key, value in params.items():
        same = letter and type(params[letter]) is type(value) and params[letter] == value
        if same and len(letter) < len(key) and key not in GROUP_KEYS:
            found[key], letter = letter, ""
        else:
            found[key] = letter = key
    return found


def plain(value: Any) -> str:
    """A value as text: whole numbers without a point, truth values in lower case.

    >>> plain(4096.0), plain(0.5), plain(True)
    ('4096', '0.5', 'true')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value)
