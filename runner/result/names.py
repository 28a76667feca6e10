"""Parameters as people read them: which are the family's own, and numbers without decoration."""

from __future__ import annotations

from typing import Any

GROUP_KEYS = ("argv", "dtype", "variant", "kernel", "gpu", "model", "shape", "backend", "seed")
"""Entries of ``Result.params`` that are no dimension of the family."""


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
