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
    _check_names(kernel)
    evaluate = Evaluator(values)
    for letter, declared in kernel.declare.items():
        _check_expressions(f"kernel.params.{letter}", values[letter], declared, evaluate)
    return values


def long_names(kernel: Kernel) -> dict[str, str]:
    """Letter → its long name, for the letters that have one: ``{"T": "context"}``."""
    declared = {letter: param.name for letter, param in kernel.declare.items()}
    return {letter: name for letter, name in declared.items() if name and name != letter}


def filed(values: Mapping[str, Value], names: Mapping[str, str]) -> dict[str, Value]:
    """Every value under its letter and, right after it, under its long name."""
    both: dict[str, Value] = {}
    for letter, value in values.items():
        both[letter] = value
        if letter in names:
            both[names[letter]] = value
    return both


def _check_names(kernel: Kernel) -> None:
    """A long name that stood for two parameters would hide the value of one."""
    taken = set(kernel.declare)
    for letter, name in long_names(kernel).items():
        if name in taken:
            raise FamilyError(f"{kernel.name}: declare.{letter}.name={name} is the name of another parameter too")
        taken.add(name)


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
