"""Kernel parameters with their declared types, and the limits that are arithmetic over other parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runner.config.check import check_param
from runner.config.schema import Kernel, Param
from runner.plan.errors import FamilyError, PlanError
from runner.plan.expressions import Evaluator, Value

_TYPES: dict[str, type] = {"int": int, "float": float, "str": str}


def checked_parameters(kernel: Kernel) -> dict[str, Value]:
    """Letter → value of the declared type. Raises ``ConfigError`` for a value the family does not allow."""
    values: dict[str, Value] = {}
    for letter, declared in kernel.declare.items():
        key = f"kernel.params.{letter}"
        if letter not in kernel.params:
            raise FamilyError(f"{kernel.name}: declare.{letter} has no value under params")
        if declared.type not in _TYPES:
            raise FamilyError(f"{key}: declared type '{declared.type}' is not one of {', '.join(_TYPES)}")
        check_param(key, kernel.params[letter], declared)
        values[letter] = _TYPES[declared.type](kernel.params[letter])
    for letter in kernel.params:
        if letter not in kernel.declare:
            raise FamilyError(f"{kernel.name}: params.{letter} is not declared")
    evaluate = Evaluator(values)
    for letter, declared in kernel.declare.items():
        _check_expressions(f"kernel.params.{letter}", values[letter], declared, evaluate)
    return values


def long_names(kernel: Kernel, values: Mapping[str, Value]) -> dict[str, Value]:
    """Letters, each followed by the long name it is bound to, as filed."""
    named: dict[str, Value] = {}
    for letter, declared in kernel.declare.items():
        named[letter] = values[letter]
        if declared.name:
            named[declared.name] = values[letter]
    return named


def _check_expressions(key: str, value: Value, declared: Param, evaluate: Evaluator) -> None:
    """Limits such as ``max: heads``; those that are plain numbers were checked before."""
    if isinstance(value, str):
        return
    limits: dict[str, Any] = {"at least": declared.min, "at most": declared.max, "a multiple of": declared.multiple_of}
    for words, text in limits.items():
        if not isinstance(text, str):
            continue
        limit = evaluate.number(text, key)
        broken = {"at least": value < limit, "at most": value > limit, "a multiple of": bool(limit and value % limit)}
        if broken[words]:
            raise PlanError(key, value, f"must be {words} {limit} ({text})")
