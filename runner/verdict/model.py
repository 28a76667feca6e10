"""What a judgement needs, and what it says: ``Measured`` pairs in, a ``Comparison`` out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from runner.result.model import Quality, Status

Configuration = tuple[tuple[str, str], ...]
"""Name and value of each parameter, sorted: two runs measured the same when these are equal."""

PLACES = ("gpu", "backend")
"""Parameters that say where it ran, not what: no part of a configuration."""


class Verdict(str, Enum):
    """Of the candidate against the baseline."""

    FASTER = "FASTER"
    SLOWER = "SLOWER"
    """The times differ by more than noise explains, and not surely by less than the tolerance."""
    SAME = "SAME"
    """Whatever difference there may be is smaller than the tolerance."""
    AMBIGUOUS = "AMBIGUOUS"
    """The measurements do not say; the reason does, and what to do."""
    INCOMPARABLE = "INCOMPARABLE"
    """The two were not measured alike, or one of them was not measured."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One run, or several of the same as one, with what a judgement looks at. What is unknown is None or empty."""

    configuration: Configuration
    kernel: str
    variant: str
    backend: str
    status: Status
    device: str = ""
    """What the device calls itself."""
    method: str = ""
    """What took the time: ``cuda_events``, ``host_clock``, … (``Series.method``)."""
    mode: str = ""
    """Of the series behind ``time_us``: ``cold``, ``host``, ``graph``, ``hot``."""
    quality: Quality = Quality.UNMEASURED
    flags: tuple[str, ...] = ()
    message: str = ""
    """Why it did not pass."""
    time_us: float | None = None
    low: float | None = None
    """With ``high`` the 95 % interval of the median, microseconds."""
    high: float | None = None
    q1: float | None = None
    """With ``q3`` the quartiles of the samples, microseconds."""
    q3: float | None = None
    samples: int = 0
    trials: int = 1
    """Processes (or runs) that ``time_us`` is the median of."""
    trials_rsd: float | None = None
    """Relative standard deviation of the medians of the trials."""
    sm_clock_mhz: float | None = None
    bytes_moved: float | None = None
    flops: float | None = None
    fingerprint: str = ""
    """Equal for runs that can stand for each other."""
    commit: str = ""
    dirty: bool = False
    """Something that was in no commit was measured."""
    driver: str = ""
    run_id: str = ""
    """Of the tracker; empty for what was read from a file."""
    result_id: str = ""
    sweep_id: str = ""
    experiment_id: str = ""
    started: int = 0
    """Milliseconds since 1970."""
    overrides: str = ""
    """Hydra's words for this experiment."""

    @property
    def params(self) -> Mapping[str, str]:
        return dict(self.configuration)

    @property
    def measuring(self) -> tuple[str, str, str]:
        """How it was timed: two of these that differ give times that do not compare."""
        return self.backend, self.method, self.mode


@dataclass(frozen=True, slots=True)
class Pair:
    """The same configuration on both sides."""

    baseline: Measured
    candidate: Measured


@dataclass(frozen=True, slots=True)
class Rules:
    """What a judgement may be told."""

    tolerance: float = 0.01
    """A relative difference that is surely smaller than this counts as none."""
    alpha: float = 0.01
    """Share of false ones accepted among all that are called FASTER or SLOWER."""
    across_gpus: bool = False
    """Compare different devices of one backend."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A pair and its verdict. Differences are relative: 0.02 = the candidate takes 2 % longer."""

    pair: Pair
    verdict: Verdict
    reason: str = ""
    """Of AMBIGUOUS and INCOMPARABLE, in words; of others a remark."""
    effect: float | None = None
    low: float | None = None
    """With ``high`` the 95 % interval of the effect, what differs between processes included."""
    high: float | None = None
    floor: float | None = None
    """Noise floor: what two runs of the same differ by in 95 % of cases, beyond what their own samples show."""
    p: float | None = None
    """Chance of such a difference where there is none, corrected for the number of pairs."""
    effect_cycles: float | None = None
    """The effect in clock cycles; only where the clocks differ."""


@dataclass(frozen=True)
class Comparison:
    """Two sides and the verdicts."""

    baseline: str
    """Side as it was named."""
    candidate: str
    judged: tuple[Judged, ...]
    only_baseline: tuple[Measured, ...] = ()
    """Experiments that the candidate lacks."""
    only_candidate: tuple[Measured, ...] = ()
    rules: Rules = field(default_factory=Rules)

    @cached_property
    def counts(self) -> Mapping[Verdict, int]:
        """How many of each verdict, in the order of ``Verdict``; zeros too."""
        found = Counter(one.verdict for one in self.judged)
        return {verdict: found[verdict] for verdict in Verdict}
