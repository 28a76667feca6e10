"""Which launches are possible on every CUDA architecture."""

from __future__ import annotations

from runner.plan.errors import PlanError
from runner.plan.model import Launch, Plan

MAX_THREADS = 1024
"""Threads of a block."""
MAX_BLOCK = (1024, 1024, 64)
"""Threads of a block along x, y, z."""
MAX_GRID = (2**31 - 1, 65_535, 65_535)
"""Blocks of a grid along x, y, z."""


def check_launches(plan: Plan) -> None:
    """Raises ``PlanError`` for a grid or block that no device takes; an empty grid is fine, it is not launched."""
    for launch in (*plan.prepare, *(one for variant in plan.variants for one in variant.launches)):
        _check(f"{plan.kernel}: {launch.function}", launch)


def _check(where: str, launch: Launch) -> None:
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    if not 1 <= threads <= MAX_THREADS:
        raise PlanError(f"{where}.block", list(launch.block), f"{threads} threads; a block has 1 to {MAX_THREADS}")
    for axis, size, limit in zip("xyz", launch.block, MAX_BLOCK, strict=True):
        if not 1 <= size <= limit:
            raise PlanError(f"{where}.block.{axis}", size, f"a block has 1 to {limit} threads along {axis}")
    for axis, size, limit in zip("xyz", launch.grid, MAX_GRID, strict=True):
        if not 0 <= size <= limit:
            raise PlanError(f"{where}.grid.{axis}", size, f"a grid has 0 to {limit} blocks along {axis}")
