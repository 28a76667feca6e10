"""Which launches are possible on every CUDA architecture."""

from __future__ import annotations

MAX_THREADS = 1024
"""Threads of a block."""
MAX_BLOCK = (1024, 1024, 64)
"""Threads of a block along x, y, z."""
MAX_GRID = (2**31 - 1, 65_535, 65_535)
"""Blocks of a grid along x, y, z."""
