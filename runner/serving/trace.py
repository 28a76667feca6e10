"""A trace: requests by their arrival, with the lengths of prompt and output."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

MOST_REQUESTS = 100_000
LONGEST = 1 << 20
"""Tokens of a prompt, and of an output."""
MOST_OUTPUT = 1 << 24
"""Output tokens of a whole trace: each leaves its time and its id in the record."""
LATEST_S = 1e9
"""Some 30 years: arrivals may be times of day."""


@dataclass(frozen=True)
class Request:
    """What one user asks for. The output has exactly ``output`` tokens: none of them ends it early."""

    index: int
    """Its place in the trace; says with the seed what the prompt is."""
    arrival_s: float
    """From the trace's first arrival."""
    prompt: int
    """Tokens, 1 or more."""
    output: int
    """Tokens, 1 or more."""
    shared: int = 0
    """Of the prompt, the first tokens, which all requests of the same group begin with."""
    group: int = 0

    @property
    def cached(self) -> int:
        """Tokens whose K and V it needs at its end: the last output token is never read again."""
        return self.prompt + self.output - 1


Trace = tuple[Request, ...]
"""In order of arrival; ``trace[i].index`` is i and the first arrives at 0."""


def ordered(requests: Iterable[Request]) -> Trace:
    """A trace of requests in any order with arrivals from any moment; those of one moment keep their order."""
    by_arrival = sorted(requests, key=lambda request: request.arrival_s)
    first_s = by_arrival[0].arrival_s if by_arrival else 0.0
    return tuple(
        replace(request, index=index, arrival_s=request.arrival_s - first_s) for index, request in enumerate(by_arrival)
    )
