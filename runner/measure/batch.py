"""How many steps fill a batch of a given time."""

from __future__ import annotations

from collections.abc import Callable

from runner.measure.stopping import Stopper

_GROWTH = 8
"""Factor between two calibrating batches."""

_ENOUGH = 0.1
"""A calibrating batch this large a share of the target is long enough to divide by."""


def calibrated(run: Callable[[int], float], target_us: float, most: int, limit_s: float, stopper: Stopper) -> int:
    """Steps, 1 to ``most``, that fill ``target_us``, from batches that grow until one is long enough. They are not
    samples: the first ones are mostly launch latency.

    ``run`` takes a number of steps and gives their time in microseconds.
    """
    steps = 1
    while True:
        elapsed_us = run(steps)
        if elapsed_us >= _ENOUGH * target_us or steps == most or stopper.wall_s >= limit_s:
            break
        steps = min(steps * _GROWTH, most)
    if elapsed_us <= 0:  # a step that does nothing
        return steps
    return max(1, min(most, round(target_us * steps / elapsed_us)))
