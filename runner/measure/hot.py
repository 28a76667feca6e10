"""Hot samples: batches of steps back to back, caches as the steps leave them."""

from __future__ import annotations

from collections.abc import Callable

from runner.backend.base import Event, Stream
from runner.measure.energy import StepEnergy
from runner.measure.settings import MeasureSettings
from runner.measure.stopping import Stopper
from runner.result.model import Series

MAX_BATCH = 100_000
"""Most steps in one batch."""

_GROWTH = 8
"""Factor between two calibrating batches."""

_ENOUGH = 0.1
"""A calibrating batch this large a share of the target is long enough to divide by."""


def measure_hot(
    stream: Stream,
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
    timed = _Batch(stream, step)
    target_us = settings.hot_batch_time_s * 1e6
    steps = 1 if estimate_us >= target_us else _calibrate(timed, target_us, settings.max_time_s, stopper)
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
        method=f"{stream.device.info.backend}_events",
        samples_us=samples,
        batch=steps,
        stop_reason=reason,
        wall_s=stopper.wall_s,
    )


class _Batch:
    """A number of steps between two events."""

    def __init__(self, stream: Stream, step: Callable[[], None]) -> None:
        self._stream, self._step = stream, step
        self._start: Event = stream.device.event()
        self._stop: Event = stream.device.event()

    def run(self, steps: int) -> float:
        """Device time of ``steps`` steps in microseconds."""
        self._stream.record(self._start)
        for _ in range(steps):
            self._step()
        self._stream.record(self._stop)
        self._stream.synchronize()
        return self._stop.elapsed_us(self._start)


def _calibrate(timed: _Batch, target_us: float, limit_s: float, stopper: Stopper) -> int:
    """Steps that fill ``target_us``, from batches that grow until one is long enough. They are not samples:
    the first ones are mostly launch latency."""
    steps = 1
    while True:
        elapsed_us = timed.run(steps)
        if elapsed_us >= _ENOUGH * target_us or steps == MAX_BATCH or stopper.wall_s >= limit_s:
            break
        steps = min(steps * _GROWTH, MAX_BATCH)
    if elapsed_us <= 0:  # a step that does nothing
        return steps
    return max(1, min(MAX_BATCH, round(target_us * steps / elapsed_us)))
