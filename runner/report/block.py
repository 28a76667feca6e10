"""A part of a page: a heading, lines and a table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Block:
    """A heading, what is said under it, and a table."""

    title: str
    lines: tuple[str, ...] = ()
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    left: int = 1
    """Columns that are text."""
    told: bool = False
    """The last column is text too."""
