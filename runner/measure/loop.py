"""The timing loop: warm-up, then every mode of the settings."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from runner.backend.base import Stream
from runner.measure.cold import measure_cold
from runner.measure.energy import StepEnergy
from runner.measure.flush import Flusher
from runner.measure.graph import Steps, measure_graph
from runner.measure.host_clock import measure_host
from runner.measure.hot import measure_hot
from runner.measure.settings import MeasureSettings
from runner.measure.sm_clock import SmClock
from runner.measure.stopping import Stopper
from runner.result.model import Series


def measure(
    streams: Sequence[Stream],
    step: Callable[[], None],
    settings: MeasureSettings,
    *,
    host_timed: bool,
    flush: Sequence[Flusher],
    clocks: Sequence[SmClock] = (),
    graph: Steps | None = None,
    clock: Callable[[], float] = time.monotonic,
    on_sample: Callable[[str, float], None] | None = None,
    energy: StepEnergy | None = None,
) -> list[Series]:
    """One series per mode, in the order of ``settings.modes``; only a ``host`` series if ``host_timed``.

    ``step`` enqueues one unit of work on ``streams``, one of each device (or runs it, host-timed); the time of a step
    is that of the device that takes longest (``backend/marks.py``). ``flush``: one for each stream, and so ``clocks``
    where the devices have one. ``graph``: the steps of a graph; without them that mode is left out. After each sample,
    outside the timed region, ``on_sample(mode, microseconds)`` is called. ``energy`` is filled by the hot mode. Errors
    of the backend pass through. Raises ``ValueError`` for a cold mode without ``flush``.
    """
    modes = ("host",) if host_timed else settings.modes
    if "cold" in modes and not flush:
        raise ValueError("measure.modes has 'cold', which needs a flush buffer")
    told = on_sample or _silent
    series: list[Series] = []
    with _no_collection():
        _warm_up(streams, step, settings.warmup)
        for mode in modes:
            stopper = Stopper(settings, clock)
            if mode == "cold":
                series.append(measure_cold(streams, step, settings, flush, stopper, told, clocks))
            elif mode == "hot":
                known = min((min(s.samples_us) for s in series if s.mode == "cold"), default=0.0)
                series.append(measure_hot(streams, step, settings, stopper, told, known, energy))
            elif mode == "graph":
                if graph is not None:
                    series.append(measure_graph(streams[0], graph, settings, stopper, told))
            else:
                series.append(measure_host(streams, step, stopper, told, enqueues=not host_timed))
    return series


def _warm_up(streams: Sequence[Stream], step: Callable[[], None], count: int) -> None:
    """Untimed, and never held: a first launch may load code, which waits for the device."""
    for _ in range(count):
        step()
    for stream in streams if count else ():
        stream.synchronize()


@contextmanager
def _no_collection() -> Iterator[None]:
    """Python's garbage collector does not run between two launches."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _silent(mode: str, sample_us: float) -> None:
    """The default ``on_sample``."""
