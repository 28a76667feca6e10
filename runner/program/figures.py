"""The metrics a program prints: read from its output by the sources of ``runner.config.metric_source``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from runner.config.metric_source import expression, is_path, json_path
from runner.result.document import parsed


def medians(sources: Mapping[str, str], outputs: Sequence[tuple[str, str]]) -> tuple[dict[str, float], list[str]]:
    """The median over the runs of each metric, and a warning for each that a run did not print.

    ``outputs``: stdout and stderr of each measured run.
    """
    found: dict[str, float] = {}
    warnings: list[str] = []
    for name, source in sources.items():
        values: list[float] = []
        problems: list[str] = []
        for stdout, stderr in outputs:
            try:
                values.append(value(source, stdout, stderr))
            except ValueError as error:
                problems.append(str(error))
        if values:
            found[name] = median(values)
        if problems:
            where = "" if not values else f" in {len(problems)} of {len(outputs)} runs"
            warnings.append(f"metric {name} was not found{where}: {problems[0]}")
    return found, warnings


def value(source: str, stdout: str, stderr: str) -> float:
    """The last match in stdout, else in stderr. A JSON path is followed in the last line of stdout that is a JSON
    document, else in all of stdout. Raises ``ValueError`` saying what is missing."""
    if is_path(source):
        return _finite(_at(source, _document(stdout)), source)
    pattern = expression(source)
    for text in (stdout, stderr):
        matches = [match[1] for match in pattern.finditer(text) if match[1] is not None]
        if matches:
            return _finite(_number(matches[-1], source), source)
    raise ValueError(f"nothing in the output matches {source}")


def _document(stdout: str) -> Any:
    texts = [line for line in reversed(stdout.splitlines()) if line.strip().startswith(("{", "["))]
    for text in [*texts, stdout]:
        try:
            return parsed(text)
        except ValueError:
            continue
    raise ValueError("stdout holds no JSON document")


def _at(source: str, document: Any) -> float:
    here = document
    for step in json_path(source):
        try:
            here = here[step]
        except (KeyError, IndexError, TypeError):
            raise ValueError(f"{source}: there is no {step!r} in {_short(here)}") from None
    if isinstance(here, bool) or not isinstance(here, (int, float)):
        raise ValueError(f"{source} is {_short(here)}, not a number")
    try:
        return float(here)
    except OverflowError:
        return math.inf


def _finite(number: float, source: str) -> float:
    if not math.isfinite(number):
        raise ValueError(f"{source} gives {number}, which is no measurement")
    return number


def _number(text: str, source: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{source} matched {text!r}, which is not a number") from None


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
