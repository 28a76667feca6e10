"""The files of a comparison: ``table.md``, ``comparison.json`` and ``comparison.png``."""

from __future__ import annotations

import dataclasses
import functools
import json
from pathlib import Path
from typing import Any

from runner.report.compared import markdown_of
from runner.report.compared_plot import write_plot
from runner.result.document import write_text
from runner.verdict.model import Comparison, Judged, Measured

VERSION = 1
"""Of the layout of ``comparison.json``."""
EVERY = 1_000_000
"""Rows of a table that has all."""


def write_files(comparison: Comparison, folder: Path) -> list[Path]:
    """The paths; without the plot where there is nothing to draw. Raises ``DocumentError``."""
    written = [folder / "table.md", folder / "comparison.json"]
    write_text(written[0], markdown_of(comparison, most=EVERY))
    write_text(written[1], _json(document(comparison)))
    if write_plot(comparison, folder / "comparison.png"):
        written.append(folder / "comparison.png")
    return written


def _json(values: dict[str, Any]) -> str:
    """A line for each key and each entry of a list: ``indent=`` would take seconds for thousands of pairs."""
    plain = functools.partial(json.dumps, ensure_ascii=False, allow_nan=False)
    lines = []
    for key, value in values.items():
        text = "[\n" + ",\n".join(map(plain, value)) + "\n]" if isinstance(value, list) and value else plain(value)
        lines.append(f"{plain(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def document(comparison: Comparison) -> dict[str, Any]:
    """JSON values; relative effects, times in microseconds."""
    return {
        "version": VERSION,
        "baseline": comparison.baseline,
        "candidate": comparison.candidate,
        "rules": dataclasses.asdict(comparison.rules),
        "counts": {verdict.value: count for verdict, count in comparison.counts.items()},
        "pairs": [_judged(one) for one in comparison.judged],
        "only_baseline": [_what(one) | _measured(one) for one in comparison.only_baseline],
        "only_candidate": [_what(one) | _measured(one) for one in comparison.only_candidate],
    }


def _judged(one: Judged) -> dict[str, Any]:
    values = {field.name: getattr(one, field.name) for field in dataclasses.fields(one) if field.name != "pair"}
    sides = {"baseline": _measured(one.pair.baseline), "candidate": _measured(one.pair.candidate)}
    return _what(one.pair.candidate) | values | {"verdict": one.verdict.value} | sides


def _what(one: Measured) -> dict[str, Any]:
    return {"kernel": one.kernel, "variant": one.variant, "params": one.params}


def _measured(one: Measured) -> dict[str, Any]:
    """Without what both sides of a pair share."""
    left_out = ("kernel", "variant", "configuration")
    values = {field.name: getattr(one, field.name) for field in dataclasses.fields(one) if field.name not in left_out}
    return values | {"status": one.status.value, "quality": one.quality.value, "flags": list(one.flags)}
