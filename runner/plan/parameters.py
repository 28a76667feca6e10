"""Kernel parameters against what their family declares: type, range, choices."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from typing import Any

from runner.config.schema import Kernel, Param
from runner.plan.errors import FamilyError, PlanError
from runner.plan.expressions import Evaluator, Value


def checked_parameters(kernel: Kernel) -> dict[str, Value]:
    """Letter → value of the declared type. Raises ``PlanError`` for a value the family does not allow."""
    values: dict[str, Value] = {}
    for letter, raw in kernel.params.items():
        if letter not in kernel.declare:
            near = difflib.get_close_matches(letter, list(kernel.declare), n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise PlanError(f"kernel.params.{letter}", raw, f"{hint}{kernel.name} knows {', '.join(kernel.declare)}")
        values[letter] = _typed(f"kernel.params.{letter}", raw, kernel.declare[letter])
    for letter in kernel.declare:
        if letter not in values:
            raise FamilyError(f"{kernel.name}: declare.{letter} has no value under params")
    evaluate = Evaluator(values)
    for letter, value in values.items():
        _check_range(f"kernel.params.{letter}", value, kernel.declare[letter], evaluate)
    return values


def long_names(kernel: Kernel, values: Mapping[str, Value]) -> dict[str, Value]:
    """Letters and beside them the long names they are bound to, as filed."""
    named = dict(values)
    for letter, declared in kernel.declare.items():
        if declared.name:
            named[declared.name] = values[letter]
    return named


def _typed(key: str, raw: Any, declared: Param) -> Value:
    if declared.type == "int":
        if isinstance(raw, bool) or not isinstance(raw, (int, float, str)):
            raise PlanError(key, raw, "must be an integer")
        try:
            number = int(raw) if not isinstance(raw, float) else raw
        except ValueError:
            raise PlanError(key, raw, "must be an integer") from None
        if isinstance(number, float):
            if not number.is_integer():
                raise PlanError(key, raw, "must be an integer")
            number = int(number)
        return number
    if declared.type == "float":
        if isinstance(raw, bool) or not isinstance(raw, (int, float, str)):
            raise PlanError(key, raw, "must be a number")
        try:
            value = float(raw)
        except ValueError:
            raise PlanError(key, raw, "must be a number") from None
        if not math.isfinite(value):
            raise PlanError(key, raw, "must be a finite number")
        return value
    if declared.type == "str":
        return str(raw)
    raise FamilyError(f"{key}: declared type '{declared.type}' is not one of int, float, str")


def _check_range(key: str, value: Value, declared: Param, evaluate: Evaluator) -> None:
    if declared.choices and value not in declared.choices:
        raise PlanError(key, value, f"must be one of {', '.join(map(str, declared.choices))}")
    if isinstance(value, str):
        return
    if declared.min is not None:
        low = evaluate.number(declared.min, f"{key} min")
        if value < low:
            raise PlanError(key, value, f"must be at least {low}{_limits(declared)}")
    if declared.max is not None:
        high = evaluate.number(declared.max, f"{key} max")
        if value > high:
            raise PlanError(key, value, f"must be at most {high}{_limits(declared)}")
    if declared.multiple_of is not None:
        step = evaluate.integer(declared.multiple_of, f"{key} multiple_of")
        if step and value % step:
            raise PlanError(key, value, f"must be a multiple of {step}")


def _limits(declared: Param) -> str:
    return f" ({declared.help})" if declared.help else ""
