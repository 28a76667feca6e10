"""A range of elements cut into pieces that kernels and copies can work on one after another."""

from __future__ import annotations

BLOCK = 256
QUAD = 4
"""Elements a thread handles, moved as 16 bytes."""


def pieces(elements: int, count: int) -> list[tuple[int, int]]:
    """(first element, elements) of at most ``count`` pieces of equal size, the last one shorter.

    Every piece starts at a multiple of ``QUAD`` elements; a short array has fewer pieces than asked for.
    """
    size = -(-elements // (count * QUAD)) * QUAD
    return [(first, min(size, elements - first)) for first in range(0, elements, size)]


def grid(elements: int) -> tuple[int, int, int]:
    """Blocks of ``BLOCK`` threads, a quad a thread."""
    return (-(-elements // (BLOCK * QUAD)), 1, 1)
