"""A plan with nothing in it: a test says what matters to it, and only that."""

from __future__ import annotations

from typing import Any

from runner.plan.model import Plan, Target


def plan_with(**fields: Any) -> Plan:
    """The empty plan of kernel ``k`` on one host device, with ``fields`` replaced."""
    values: dict[str, Any] = {
        "kernel": "k",
        "phase": "decode",
        "params": {},
        "symbols": {},
        "model": "m",
        "shape": "s",
        "target": Target("host"),
        "devices": (0,),
        "source": "",
        "reference": "",
        "defines": {},
        "flags": (),
        "buffers": (),
        "prepare": (),
        "variants": (),
        "baseline": "",
        "seed": 0,
    }
    return Plan(**{**values, **fields})
