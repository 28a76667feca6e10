"""Arithmetic in YAML: ``B*H*T*D``, ``ceil_div(K, group)``. Evaluated by simpleeval, never by ``eval``."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from simpleeval import InvalidExpression, NameNotDefined, SimpleEval

from runner.plan.errors import FamilyError

Number = int | float
Value = int | float | str | bool


def ceil_div(a: int, b: int) -> int:
    """Smallest integer not below a / b."""
    return -(-a // b)


def clamp(value: Number, low: Number, high: Number) -> Number:
    """``value`` moved into [low, high]; ``low`` wins where the two cross."""
    return max(low, min(value, high))


def next_pow2(value: int) -> int:
    """Smallest power of two not below ``value``; 1 for anything below 1."""
    return 1 << max(0, int(value) - 1).bit_length()


def prev_pow2(value: int) -> int:
    """Largest power of two not above ``value``; 1 for anything below 1."""
    return 1 << max(0, max(1, int(value)).bit_length() - 1)


def align(value: int, to: int) -> int:
    """``value`` rounded up to a multiple of ``to``."""
    return ceil_div(value, to) * to


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "align": align,
    "ceil_div": ceil_div,
    "clamp": clamp,
    "float": float,
    "int": int,
    "max": max,
    "min": min,
    "next_pow2": next_pow2,
    "prev_pow2": prev_pow2,
    "round": round,
}


@lru_cache(maxsize=4096)
def _parse(expression: str) -> ast.AST:
    return SimpleEval.parse(expression)  # type: ignore[no-any-return]


class Evaluator:
    """Evaluates expressions over one set of symbols.

    ``functions`` adds to ``FUNCTIONS`` (``bytes(name)``, say). Every error names ``where`` the expression
    stands and, for an unknown symbol, the nearest known one.
    """

    def __init__(self, symbols: Mapping[str, Value], functions: Mapping[str, Callable[..., Any]] | None = None) -> None:
        self.symbols = dict(symbols)
        self._eval = SimpleEval(functions={**FUNCTIONS, **(functions or {})}, names=self.symbols)

    def value(self, expression: object, where: str) -> Value:
        """A number, boolean or string; an entry that is already one passes through."""
        if isinstance(expression, (bool, int, float)):
            return expression
        text = str(expression)
        try:
            result = self._eval.eval(text, previously_parsed=_parse(text))
        except NameNotDefined as error:
            name = getattr(error, "name", text)
            near = difflib.get_close_matches(str(name), list(self.symbols), n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; known: {', '.join(sorted(self.symbols))}"
            raise FamilyError(f"{where}: '{text}' uses the unknown name '{name}'{hint}") from None
        except ZeroDivisionError:
            raise FamilyError(f"{where}: '{text}' divides by zero") from None
        except (InvalidExpression, SyntaxError, TypeError, ValueError, OverflowError) as error:
            raise FamilyError(f"{where}: '{text}' cannot be evaluated: {error}") from None
        if not isinstance(result, (bool, int, float, str)):
            raise FamilyError(f"{where}: '{text}' gives {result!r}, not a number")
        return result

    def number(self, expression: object, where: str) -> Number:
        result = self.value(expression, where)
        if isinstance(result, (bool, str)):
            raise FamilyError(f"{where}: '{expression}' gives {result!r}, not a number")
        return result

    def integer(self, expression: object, where: str) -> int:
        """An integer; a float that is one (``4.0``) is accepted."""
        result = self.number(expression, where)
        if isinstance(result, float):
            if not result.is_integer():
                raise FamilyError(f"{where}: '{expression}' gives {result}, not an integer")
            result = int(result)
        return result

    def truth(self, expression: object, where: str) -> bool:
        return bool(self.value(expression, where))
