"""What keeps two measurements from being compared at all, and what keeps a comparison from being believed. In words."""

from __future__ import annotations

import math

from runner.result.model import Quality, Status
from runner.result.statistics import BIMODAL_GAP
from runner.verdict.model import Measured, Pair, Rules

_FLAGS = {
    "bimodal": "its samples have two modes, and a median says little of them",
    "drift": "its samples rise or fall with time",
}
"""Flags of a series whose interval of the median is not what it says; ``first_outlier`` leaves it alone."""
_QUALITIES = {
    Quality.UNSTABLE: "its spread had not settled when its time was up",
    Quality.THROTTLED: "the GPU held its clock down",
}


def obstacle(pair: Pair, rules: Rules) -> str:
    """Why the two do not compare; empty when they do."""
    then, now = pair.baseline, pair.candidate
    for side, one in (("baseline", then), ("candidate", now)):
        if one.status is not Status.PASSED:
            return f"the {side} is {one.status.value}" + (f": {one.message}" if one.message else "")
        if not one.time_us or one.time_us <= 0:
            return f"the {side} was not timed"
    if then.backend != now.backend:
        return f"backends: {then.backend} and {now.backend}"
    for what, a, b in (("method", then.method, now.method), ("mode", then.mode, now.mode)):
        if a and b and a != b:
            return f"{what} of measurement: {a} and {b}"
    if then.device and now.device and then.device != now.device and not rules.across_gpus:
        return f"devices: {then.device} and {now.device} (across=gpu compares them all the same)"
    for what, first, second in (
        ("bytes moved", then.bytes_moved, now.bytes_moved),
        ("FLOPs", then.flops, now.flops),
    ):
        if first is not None and second is not None and not math.isclose(first, second, rel_tol=1e-9):
            return f"the work changed: {what} {first:.6g} and {second:.6g}"
    return ""


def doubt(pair: Pair) -> str:
    """Why a comparable pair cannot be judged; empty when it can."""
    for side, one in (("baseline", pair.baseline), ("candidate", pair.candidate)):
        if reason := of_one(one):
            return f"{side}: {reason}"
    return ""


def of_one(one: Measured) -> str:
    """Why a measurement cannot be believed; empty when it can."""
    for flag in one.flags:
        if flag in _FLAGS and not (flag == "bimodal" and _in_one_mode(one)):
            return f"{flag}: {_FLAGS[flag]}"
    if one.quality in _QUALITIES:
        return f"{one.quality.value}: {_QUALITIES[one.quality]}"
    if not one.method or not one.mode:
        return "how it was timed was not filed then: measure it again"
    if (one.trials < 2 or one.trials_rsd is None) and (one.low is None or one.high is None):
        return f"too few samples for an interval ({one.samples}; six are needed, or trials)"
    return ""


def _in_one_mode(one: Measured) -> bool:
    """Whether the middle half of the samples lies within one of two modes: then so does the median, of this run and of
    the next. A quarter of the samples may be in the other mode (a memory that is refreshed, a neighbour's access)."""
    if not one.q1 or not one.q3 or not one.time_us:
        return False
    return (one.q3 - one.q1) < BIMODAL_GAP * one.time_us
