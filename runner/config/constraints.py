"""Constraints of a study: which points of its grid make sense."""

from __future__ import annotations

import ast
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from simpleeval import InvalidExpression, NameNotDefined, SimpleEval

from runner.config.errors import ConfigError, choose_from
from runner.config.schema import Config

_FUNCTIONS = {
    "abs": abs,
    "max": max,
    "min": min,
    "ceil_div": lambda a, b: -(-a // b),
}


def violated(config: Config) -> str:
    """The reason of the first constraint that does not hold; empty when all do.

    An expression sees ``shape``, ``model`` and ``estimate`` with their keys (``shape.context``), the kernel's
    parameters by letter (``B * T``), and the names ``kernel`` and ``gpu``. Raises ``ConfigError`` for one that cannot
    be evaluated.
    """
    constraints = config.study.constraints
    if not constraints:
        return ""
    names = {
        **config.kernel.params,
        "kernel": config.kernel.name,
        "gpu": config.gpu.name,
        "shape": SimpleNamespace(**vars(config.shape)),
        "model": SimpleNamespace(**vars(config.model)),
        "estimate": SimpleNamespace(**vars(config.estimate)),
    }
    evaluator = SimpleEval(functions=_FUNCTIONS, names=names)
    for constraint in constraints:
        if not _holds(evaluator, constraint.require, names):
            return constraint.reason
    return ""


@lru_cache(maxsize=256)
def _parsed(expression: str) -> ast.AST:
    tree: ast.AST = SimpleEval.parse(expression)
    return tree


def _holds(evaluator: SimpleEval, expression: str, names: dict[str, Any]) -> bool:
    where = f"study.constraints: '{expression}'"
    try:
        return bool(evaluator.eval(expression, previously_parsed=_parsed(expression)))
    except NameNotDefined as error:
        name = str(getattr(error, "name", ""))
        raise ConfigError(f"{where} uses the unknown name '{name}'; {choose_from(name, names)}") from None
    except (InvalidExpression, SyntaxError, ArithmeticError, TypeError, ValueError) as error:
        raise ConfigError(f"{where} cannot be evaluated: {error}") from None
