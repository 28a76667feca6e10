"""Which launches are possible: on every CUDA architecture, and how much shared memory on one."""

from __future__ import annotations

from runner.plan.errors import PlanError
from runner.plan.model import Launch, Plan

MAX_THREADS = 1024
"""Threads of a block."""
MAX_BLOCK = (1024, 1024, 64)
"""Threads of a block along x, y, z."""
MAX_GRID = (2**31 - 1, 65_535, 65_535)
"""Blocks of a grid along x, y, z."""

_SHARED_KIB = {"sm_75": 64, "sm_80": 163, "sm_86": 99, "sm_87": 163, "sm_89": 99, "sm_90": 227, "sm_100": 227,
               "sm_103": 227, "sm_110": 227, "sm_120": 99, "sm_121": 99}  # fmt: skip
"""Shared memory of a block, KiB, by architecture: the CUDA C++ programming guide, "Compute Capabilities"."""
_SHARED_KIB_ANYWHERE = 48


def shared_limit(arch: str) -> int:
    """Bytes of shared memory that a block may have on ``sm_90a`` and so on; what every GPU gives where ``arch`` is not
    known, and on the host (empty) what the largest does."""
    if not arch:
        return 1024 * max(_SHARED_KIB.values())
    return 1024 * _SHARED_KIB.get(arch.rstrip("af"), _SHARED_KIB_ANYWHERE)


def capability(arch: str) -> int:
    """90 for ``sm_90a`` and so on; 0 on the host and where ``arch`` is not known."""
    digits = arch.removeprefix("sm_").rstrip("af")
    return int(digits) if digits.isdigit() else 0


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
