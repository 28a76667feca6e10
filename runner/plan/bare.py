"""The plan of a kind without kernels: what is filed about it, and one variant that launches nothing."""

from __future__ import annotations

from collections.abc import Sequence

from runner.config.schema import Config
from runner.plan.model import CommandPlan, Plan, Target, Variant


def make_bare_plan(
    config: Config,
    target: Target,
    variant: str,
    params: dict[str, float | int | str],
    *,
    model: str,
    shape: str,
    devices: Sequence[int] = (),
    command: CommandPlan | None = None,
) -> Plan:
    """``variant``, ``model`` and ``shape`` are names, ``devices`` ordinals."""
    return Plan(
        kernel=config.kernel.name,
        phase=config.kernel.phase,
        params=params,
        symbols={},
        model=model,
        shape=shape,
        target=target,
        devices=tuple(devices),
        source="",
        reference="",
        defines={},
        flags=(),
        buffers=(),
        prepare=(),
        variants=(Variant(name=variant, launches=(), checks=(), bytes_read=0, bytes_written=0, flops=0, dtype=""),),
        baseline="",
        seed=config.seed,
        command=command,
    )
