"""Constants of an engine from measured loads: bounded least squares on relative errors, tried on what was left out.

TPOT and TTFT are fitted together, since both hold the time of a prefill. Errors count linearly beyond a few per cent
(soft L1), so that a few odd rows do not pull the constants.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from runner.estimate.measured import Row
from runner.estimate.model import Architecture, Efficiency, Machine, Parallel, Precision, Work
from runner.estimate.queueing import Load, Served, load

QUEUED_TTFT_S = 5.0
"""A request that waits this long for its first token waited for KV space: such rows are not fitted."""
_TTFT_WEIGHT = 0.55
"""Of an error of TTFT beside one of TPOT: it is a tail of queues and is measured with more scatter."""
_LINEAR_BEYOND = 0.03
"""Relative error from which on errors count linearly."""
_AT_BOUND = 1e-3
"""In the solver's units: a constant as near to a bound as that lies on it."""


@dataclass(frozen=True)
class _Constant:
    name: str
    start: float
    low: float
    high: float
    unit: float
    """Typical size: the solver sees the constant in this unit."""
    inverse: bool = False
    """A share: times are linear in its inverse."""


_CONSTANTS = (
    # The best kernels read at 93 % of the datasheet's bandwidth; a fit that wants more hides another term.
    _Constant("bandwidth", 0.9, 0.3, 0.95, 1.0, inverse=True),
    _Constant("compute", 0.5, 0.05, 1.0, 1.0, inverse=True),
    _Constant("layer_us", 40.0, 0.0, 1000.0, 50.0),
    _Constant("all_reduce_us", 5.0, 0.0, 500.0, 10.0),
    _Constant("sequence_us", 40.0, 0.0, 5000.0, 50.0),
    _Constant("request_us", 5e4, 0.0, 1e6, 5e4),
    _Constant("prefills_ahead", 0.05, 0.0, 1.0, 0.1),
)


@dataclass(frozen=True)
class Case:
    """A measurement and the load it is of."""

    row: Row
    load: Load

    @property
    def waited(self) -> bool:
        """The measurement says that requests waited for KV space."""
        return self.row.ttft_s >= QUEUED_TTFT_S


@dataclass(frozen=True)
class Check:
    """A measurement beside its prediction."""

    row: Row
    served: Served

    @property
    def tpot_error(self) -> float:
        """Predicted over measured − 1."""
        return self.served.tpot_s / self.row.tpot_s - 1

    @property
    def ttft_error(self) -> float:
        return self.served.ttft_s / self.row.ttft_s - 1


def cases(
    rows: Sequence[Row],
    arch: Architecture,
    machine: Machine,
    weights: Precision,
    kv: Precision,
    other: Precision,
    reserve: int,
    share: float,
) -> list[Case]:
    """Each row with its load, at these precisions."""
    found = []
    for row in rows:
        work = Work(row.concurrency, row.prompt, row.output, weights=weights, kv=kv, other=other)
        found.append(Case(row, load(arch, work, Parallel(tensor=row.tensor), machine, reserve, share)))
    return found


def usable(measured: Sequence[Case]) -> list[Case]:
    """Those whose requests did not wait for KV space, as measured."""
    return [case for case in measured if not case.waited]


def contradictions(measured: Sequence[Case]) -> list[Case]:
    """Cases whose measured TTFT says the opposite of what the KV space does: they show that the precision of the KV
    cache is another one."""
    return [case for case in measured if case.waited != case.load.queues]


def fit(measured: Sequence[Case], start: Efficiency | None = None) -> Efficiency:
    """The constants that predict the cases best; ``start`` saves time where a good guess is known.

    Raises ``ValueError`` for fewer cases than constants. A constant that no case depends on (all-reduce where no row
    has TP > 1) is left at 0.
    """
    if len(measured) < len(_CONSTANTS):
        raise ValueError(f"{len(measured)} rows cannot fix {len(_CONSTANTS)} constants")
    loads = [replace(case.load, slots=max(case.load.slots, case.load.concurrency)) for case in measured]
    tpot = np.array([case.row.tpot_s for case in measured])
    ttft = np.array([case.row.ttft_s for case in measured])

    def errors(scaled: NDArray[np.float64]) -> NDArray[np.float64]:
        efficiency = _efficiency(scaled)
        served = [one.served(efficiency) for one in loads]
        of_tpot = np.array([one.tpot_s for one in served]) / tpot - 1
        of_ttft = np.array([one.ttft_s for one in served]) / ttft - 1
        return np.concatenate([of_tpot, _TTFT_WEIGHT * of_ttft])

    low, high = np.array([_scaled_bounds(one) for one in _CONSTANTS]).T
    begin = np.array([_scaled(one, getattr(start, one.name) if start else one.start) for one in _CONSTANTS])
    begin = np.clip(begin, low + 1e-6 * (high - low), high - 1e-6 * (high - low))
    found: Any = least_squares(
        errors, begin, bounds=(low, high), loss="soft_l1", f_scale=_LINEAR_BEYOND, xtol=1e-6, ftol=1e-6, max_nfev=60
    )
    made = _efficiency(_on_bounds(found.x, low, high))
    return made if any(one.parallel.tensor > 1 for one in loads) else replace(made, all_reduce_us=0.0)


def at_bound(efficiency: Efficiency) -> list[str]:
    """Constants that a fit pushed to the limit of what it allows."""
    values = ((one, getattr(efficiency, one.name)) for one in _CONSTANTS)
    return [one.name for one, value in values if any(math.isclose(value, edge) for edge in (one.low, one.high))]


def check(measured: Sequence[Case], efficiency: Efficiency) -> list[Check]:
    """Every case predicted."""
    return [Check(case.row, case.load.served(efficiency)) for case in measured]


def left_out(measured: Sequence[Case], start: Efficiency) -> list[Check]:
    """Every case predicted from a fit without its configuration: all concurrencies at the same lengths and TP are left
    out together, as they are more alike than a new load would be."""
    found: list[Check] = []
    for configuration in dict.fromkeys(case.row.configuration for case in measured):
        rest = [case for case in measured if case.row.configuration != configuration]
        held = [case for case in measured if case.row.configuration == configuration]
        found += check(held, fit(rest, start))
    return found


def tpot_percent(checks: Sequence[Check]) -> float:
    """Mean absolute error of TPOT, per cent."""
    return 100 * float(np.mean([abs(one.tpot_error) for one in checks]))


def ttft_percent(checks: Sequence[Check]) -> float:
    """Mean absolute error of TTFT, per cent."""
    return 100 * float(np.mean([abs(one.ttft_error) for one in checks]))


def _efficiency(scaled: NDArray[np.float64]) -> Efficiency:
    values = {one.name: _unscaled(one, float(value)) for one, value in zip(_CONSTANTS, scaled, strict=True)}
    return Efficiency(level="model", source="a fit", **values)


def _scaled(one: _Constant, value: float) -> float:
    return 1 / value if one.inverse else value / one.unit


def _unscaled(one: _Constant, scaled: float) -> float:
    value = 1 / scaled if one.inverse else scaled * one.unit
    return min(max(value, one.low), one.high)


def _scaled_bounds(one: _Constant) -> tuple[float, float]:
    low, high = sorted((_scaled(one, one.low), _scaled(one, one.high)))
    return low, high


def _on_bounds(scaled: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.float64]:
    """The solver stays a hair inside its bounds; what it pushes there lies on them."""
    on_low = np.where(scaled - low < _AT_BOUND, low, scaled)
    return np.where(high - on_low < _AT_BOUND, high, on_low)
