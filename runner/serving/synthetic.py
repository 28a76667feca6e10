"""A trace without a file: requests that come independently of each other, with lengths drawn from ranges."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from runner.config.errors import ConfigError
from runner.serving.drawn import fractions, integers
from runner.serving.trace import LONGEST, MOST_OUTPUT, MOST_REQUESTS, Request, Trace, ordered

_GAPS, _PROMPTS, _OUTPUTS, _GROUPS = range(4)
"""Streams of the seed."""


@dataclass(frozen=True)
class Synthetic:
    """What is drawn: arrivals of a Poisson process, lengths uniform between the bounds, both inclusive."""

    requests: int
    rate: float
    """Requests a second, on average; infinity has all of them arrive at once."""
    prompt: tuple[int, int]
    output: tuple[int, int]
    shared: int = 0
    """Tokens that the prompts of a group begin with; a prompt that is no longer than that is all of it."""
    groups: int = 1
    seed: int = 0


def synthetic(asked: Synthetic) -> Trace:
    """The trace. Raises ``ConfigError`` naming the field, its value and what is allowed."""
    _check(asked)
    count, seed = asked.requests, asked.seed
    gaps_s = -np.log1p(-fractions(count, seed, _GAPS)) / asked.rate
    prompts = integers(count, *asked.prompt, seed, _PROMPTS).tolist()
    outputs = integers(count, *asked.output, seed, _OUTPUTS).tolist()
    groups = integers(count, 0, asked.groups - 1, seed, _GROUPS).tolist()
    arrivals = np.cumsum(gaps_s).tolist()
    return ordered(
        Request(index, arrival_s, prompt, output, min(asked.shared, prompt), group)
        for index, (arrival_s, prompt, output, group) in enumerate(zip(arrivals, prompts, outputs, groups, strict=True))
    )


def _check(asked: Synthetic) -> None:
    for name, value, least, most in (
        ("requests", asked.requests, 1, MOST_REQUESTS),
        ("shared", asked.shared, 0, LONGEST),
        ("groups", asked.groups, 1, MOST_REQUESTS),
        ("seed", asked.seed, 0, 2**64 - 1),
    ):
        if not least <= value <= most:
            raise ConfigError(f"{name}={value}: must be from {least} to {most}")
    for name, (low, high) in (("prompt", asked.prompt), ("output", asked.output)):
        if not 1 <= low <= high <= LONGEST:
            raise ConfigError(f"{name}={low}..{high}: must be a range of lengths from 1 to {LONGEST}")
    if math.isnan(asked.rate) or asked.rate < 1e-6:
        raise ConfigError(f"rate={asked.rate}: must be requests a second, 1e-06 or more")
    if asked.requests * asked.output[1] > MOST_OUTPUT:
        raise ConfigError(
            f"output={asked.output[0]}..{asked.output[1]}: {asked.requests} requests may have "
            f"{MOST_OUTPUT // asked.requests} output tokens each: {MOST_OUTPUT} in a trace"
        )
