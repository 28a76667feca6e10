"""Hot samples: batches of steps back to back, caches as the steps leave them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from runner.backend.base import Stream
from runner.backend.marks import Marks
from runner.measure.batch import calibrated
from runner.measure.energy import StepEnergy
from runner.measure.settings import MeasureSettings
from runner.measure.stopping import Stopper
from runner.result.model import Series

MAX_BATCH = 100_000
"""Most steps in one batch."""


def measure_hot(
    streams: Sequence[Stream],
    step: Callable[[], None],
    settings: MeasureSettings,
    stopper: Stopper,
    on_sample: Callable[[str, float], None],
    estimate_us: float = 0.0,
    energy: StepEnergy | None = None,
) -> Series:
    """Batches until ``stopper`` has a reason; a sample is a batch's time divided by its steps.

    ``estimate_us`` is the time of a step where it is already known (0 = it is not); ``energy`` covers the
    batches and nothing else.
    """
    timed = _Batch(streams, step)
    target_us = settings.hot_batch_time_s * 1e6
    steps = 1
    if estimate_us < target_us:
        steps = calibrated(timed.run, target_us, MAX_BATCH, settings.max_time_s, stopper)
    samples: list[float] = []
    reason: str | None = None
    if energy is not None:
        energy.begin()
    while reason is None:
        samples.append(timed.run(steps) / steps)
        on_sample("hot", samples[-1])
        reason = stopper.stop(samples[-1], steps)
    if energy is not None:
        energy.end(steps * len(samples))
    return Series(
        mode="hot",
        method=timed.marks.method,
        samples_us=samples,
        batch=steps,
        stop_reason=reason,
        wall_s=stopper.wall_s,
    )


class _Batch:
    """A number of steps between two events."""

    def __init__(self, streams: Sequence[Stream], step: Callable[[], None]) -> None:
        self._step = step
        self.marks = Marks(streams)

    def run(self, steps: int) -> float:
        """Device time of ``steps`` steps in microseconds."""
        self.marks.begin()
        for _ in range(steps):
            self._step()
        self.marks.end()
        return self.marks.elapsed_us()
