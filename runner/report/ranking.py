"""Estimates of one workload on several GPUs, the best first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runner.result.model import Result
from runner.result.names import GROUP_KEYS

_MACHINE = ("gpu", "tensor", "pipeline", "expert", *GROUP_KEYS)
"""Parameters that say on what a model runs, or follow from it; the others are the workload."""


def ranked(results: Sequence[Result]) -> tuple[list[Result], list[int]]:
    """The results and their ranks: workload by workload in the order they came, the best GPUs first. Ranks are zeros
    where there is one choice of GPUs only, and for what could not be estimated, which comes last.

    What fits comes before what does not, what meets the targets before what misses them. Then the cheaper token, where
    every result has a price; else fewer GPUs, and of as many the higher rate.
    """
    loads: dict[Any, list[Result]] = {}
    for result in results:
        loads.setdefault(_load(result), []).append(result)
    refused = loads.pop(None, [])
    if len({_machine(result) for load in loads.values() for result in load}) < 2:
        return list(results), [0] * len(results)
    priced = all("money_per_million_tokens" in result.metrics for load in loads.values() for result in load)
    ordered = [sorted(load, key=lambda result: _key(result, priced)) for load in loads.values()]
    ranks = [rank for load in ordered for rank in range(1, len(load) + 1)]
    return [*(result for load in ordered for result in load), *refused], [*ranks, *(0 for _ in refused)]


def _load(result: Result) -> Any:
    """What was asked of the GPUs; None for a result without an estimate."""
    if "fits" not in result.metrics:
        return None
    others = tuple((key, value) for key, value in result.params.items() if key not in _MACHINE)
    return result.model, result.variant, others


def _machine(result: Result) -> tuple[Any, ...]:
    return tuple(result.params.get(key) for key in ("gpu", "tensor", "pipeline", "expert"))


def _key(result: Result, priced: bool) -> tuple[float, ...]:
    found = result.metrics
    met = found.get("meets_targets", 1.0)
    cost = found["money_per_million_tokens"] if priced else float(_gpus(result))
    return (-found["fits"], -met, cost, -found["tokens_per_s"])


def _gpus(result: Result) -> int:
    return int(result.params.get("tensor", 1)) * int(result.params.get("pipeline", 1))
