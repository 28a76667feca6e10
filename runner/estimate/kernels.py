"""Times of a prefill and of a decode step from the measured times of their kernels, one by one.

An operator is named after its phase: ``decode_qkv``, ``prefill_attention``. Which there are is not known here: what was
measured of a phase is what the phase consists of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

DECODE, PREFILL = "decode_", "prefill_"
"""How the names of a phase's operators begin."""
EMPTY, CHAIN = "empty", "chain"
"""A kernel that does nothing, measured as the operators are, and a graph of ``nodes`` of them."""
AFTER_PREFILL = ("decode_logits", "decode_sampler")
"""A prefill ends with them: the first token is chosen as every other is."""


@dataclass(frozen=True)
class Timing:
    """One operator, measured by itself."""

    operator: str
    time_us: float
    """Of one call."""
    calls: float
    """Of a pass: once, or once or twice for each layer."""
    source: str
    """The run or the folder that says so."""
    nodes: int = 0
    """Calls that were measured together, as the nodes of a graph; 0 = one launch by itself."""


@dataclass(frozen=True)
class Launch:
    """What a kernel costs beside its work: measured alone, and as a node of a graph."""

    empty_us: float
    """A kernel that does nothing, between two events."""
    node_us: float
    """Time per node of a graph of such kernels."""
    source: str


@dataclass(frozen=True)
class Kernels:
    """The measured kernels of one load."""

    prefill: tuple[Timing, ...]
    """With what chooses the first token."""
    decode: tuple[Timing, ...]
    place: str
    """Family, and the store or the folder that its results were found in."""
    launch: Launch | None = None
    notes: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """Every run or file that a time comes from."""
        sources = dict.fromkeys(timing.source for timing in (*self.prefill, *self.decode))
        beside = [self.launch.source] if self.launch else []
        return f"{self.place}: {', '.join([*sources, *beside])}"

    @property
    def ttft_s(self) -> float:
        return 1e-6 * sequence_us(self.prefill, self.launch)

    @property
    def tpot_s(self) -> float:
        return 1e-6 * sequence_us(self.decode, self.launch)


def called_us(timing: Timing, launch: Launch | None) -> float:
    """Time of all calls of an operator among others.

    A time measured alone holds the fixed cost of starting, ending and timing, which an empty kernel shows beyond what
    a node costs: fixed = empty − node. A call by itself counts time − fixed, one of ``nodes`` in a graph, which share
    that cost, time − fixed / nodes, neither less than a node. Without both figures the time stays as it was measured.
    """
    if launch is None:
        return timing.calls * timing.time_us
    fixed = max(0.0, launch.empty_us - launch.node_us)
    return timing.calls * max(launch.node_us, timing.time_us - fixed / max(1, timing.nodes))


def sequence_us(timings: Iterable[Timing], launch: Launch | None) -> float:
    """Time of operators that follow each other without a gap for the host."""
    return sum(called_us(timing, launch) for timing in timings)


def combined(
    prefill: Sequence[Timing],
    decode: Sequence[Timing],
    place: str,
    launch: Launch | None = None,
    notes: Sequence[str] = (),
) -> Kernels:
    """``AFTER_PREFILL`` is taken from ``decode``: a prefill draws as many tokens as a step does."""
    after = tuple(timing for timing in decode if timing.operator in AFTER_PREFILL)
    return Kernels((*prefill, *after), tuple(decode), place, launch, tuple(notes))


def between(context: float, below: Mapping[int, Sequence[Timing]]) -> tuple[Timing, ...]:
    """A step at ``context`` tokens on the line through two measured contexts; operators are those of both.

    An attention that reads the cache once takes a time linear in it; the other operators do not depend on it, so that
    the line gives their mean. Raises ``ValueError`` where the operators differ, or how many were measured together.
    """
    (first, low), (last, high) = sorted(below.items())
    others = {timing.operator: timing for timing in high}
    if {timing.operator for timing in low} != set(others):
        raise ValueError(f"the steps at {first} and {last} tokens do not have the same operators")
    if any(timing.nodes != others[timing.operator].nodes for timing in low):
        raise ValueError(f"the steps at {first} and {last} tokens were not measured in the same way")
    share = (context - first) / (last - first)
    return tuple(_mixed(one, others[one.operator], share) for one in low)


def _mixed(one: Timing, other: Timing, share: float) -> Timing:
    sources = dict.fromkeys([one.source, other.source])
    return replace(one, time_us=(1 - share) * one.time_us + share * other.time_us, source=" and ".join(sources))
