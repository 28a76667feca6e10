"""Energy of a step: a meter read round the hot batches."""

from __future__ import annotations

from typing import Protocol


class EnergyMeter(Protocol):
    """Energy of one device between two calls."""

    def start(self) -> None: ...
    def stop(self) -> float | None:
        """Millijoules since ``start``; None where the device does not say."""
        ...


class StepEnergy:
    """Energy per step over the batches of one hot measurement; ``mj_per_step`` is None until there is one."""

    def __init__(self, meter: EnergyMeter) -> None:
        self._meter = meter
        self.mj_per_step: float | None = None

    def begin(self) -> None:
        self.mj_per_step = None
        self._meter.start()

    def end(self, steps: int) -> None:
        """``steps`` ran since ``begin``."""
        total_mj = self._meter.stop()
        # A meter is updated every few tens of milliseconds: no change means too short, not free of charge.
        if total_mj is not None and total_mj > 0 and steps > 0:
            self.mj_per_step = total_mj / steps
