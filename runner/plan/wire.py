"""A plan as JSON and back: how it travels to the worker."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from runner.plan.model import (
    Argument,
    Buffer,
    Check,
    Fill,
    Launch,
    Plan,
    Target,
    Variant,
    WorkloadRef,
)


def to_dict(plan: Plan) -> dict[str, Any]:
    """Plain lists, dicts and scalars."""
    return asdict(plan)


def from_dict(data: dict[str, Any]) -> Plan:
    """The inverse of ``to_dict``, also after JSON turned tuples into lists."""
    return Plan(
        **{
            **data,
            "target": Target(**data["target"]),
            "devices": tuple(data["devices"]),
            "flags": tuple(data["flags"]),
            "buffers": tuple(_buffer(item) for item in data["buffers"]),
            "prepare": tuple(_launch(item) for item in data["prepare"]),
            "variants": tuple(_variant(item) for item in data["variants"]),
            "workload": WorkloadRef(**data["workload"]),
            "companion": from_dict(data["companion"]) if data["companion"] else None,
        }
    )


def _buffer(data: dict[str, Any]) -> Buffer:
    return Buffer(**{**data, "dims": tuple(data["dims"]), "fill": Fill(**data["fill"])})


def _launch(data: dict[str, Any]) -> Launch:
    return Launch(
        **{
            **data,
            "grid": tuple(data["grid"]),
            "block": tuple(data["block"]),
            "arguments": tuple(Argument(**item) for item in data["arguments"]),
        }
    )


def _variant(data: dict[str, Any]) -> Variant:
    return Variant(
        **{
            **data,
            "launches": tuple(_launch(item) for item in data["launches"]),
            "checks": tuple(Check(**item) for item in data["checks"]),
        }
    )
