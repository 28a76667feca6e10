"""Which runs can be a standard."""

from __future__ import annotations

from typing import Any

import pytest

from runner.record.baselines import refusal
from runner.result.model import Quality, Status
from tests.verdict.synthetic import measured


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, ""),
        ({"quality": Quality.L2_RESIDENT}, ""),
        ({"status": Status.INCORRECT, "message": "row 3"}, "INCORRECT: row 3"),
        ({"time_us": None}, "it was not timed"),
        ({"device": ""}, "it does not say on which device it ran"),
        ({"quality": Quality.UNSTABLE}, "its quality is UNSTABLE"),
        ({"flags": ("drift",)}, "drift: its samples rise or fall with time"),
        ({"low": 80.0, "high": 125.0}, ""),
        ({"low": 22.8, "high": 1085.0}, "its time is only known to lie within 22.8 and 1085 us (95 %): take more"),
    ],
)
def test_a_standard_passed_is_sure_of_its_time_and_says_where_it_ran(changes: dict[str, Any], told: str) -> None:
    said = refusal(measured([100.0, 100.1, 99.9, 100.0, 100.2, 99.8], **changes))
    assert said.startswith(told) and bool(said) is bool(told)
