"""Which launches are possible: the limits of an sm_90 device, so that what passes here passes there."""

from __future__ import annotations

from runner.backend.base import Dim3, LaunchError
from runner.backend.host.machine import MAX_SHARED_BYTES
from runner.plan.limits import MAX_BLOCK, MAX_GRID, MAX_THREADS

MAX_PRIORITY = 5
"""Highest stream priority; 0 is the lowest."""


def check_launch(name: str, grid: Dim3, block: Dim3, shared_bytes: int) -> None:
    """Raises ``LaunchError`` naming the kernel, the value and what is allowed."""
    _check_dims(name, "grid", grid, MAX_GRID)
    _check_dims(name, "block", block, MAX_BLOCK)
    threads = block[0] * block[1] * block[2]
    if threads > MAX_THREADS:
        raise LaunchError(f"kernel {name}: block={block} has {threads} threads, at most {MAX_THREADS} are allowed")
    if not 0 <= shared_bytes <= MAX_SHARED_BYTES:
        raise LaunchError(f"kernel {name}: shared_bytes={shared_bytes}, allowed are 0 to {MAX_SHARED_BYTES}")


def _check_dims(name: str, what: str, dims: Dim3, largest: Dim3) -> None:
    if len(dims) != 3 or any(not 1 <= dim <= limit for dim, limit in zip(dims, largest, strict=False)):
        raise LaunchError(f"kernel {name}: {what}={dims}, allowed are 1 to {largest}")
