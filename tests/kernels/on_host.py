"""One small experiment on the host backend: planned, compiled, checked, timed once, checked again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runner.worker.protocol import Outcome
from tests.kernels.hosted import hosted


def outcomes(family: str, params: Mapping[str, Any]) -> dict[str, Outcome]:
    """Every variant of the family at these parameters, by name; none may be left out."""
    _, found, left_out = hosted(family, params)
    assert not left_out
    return found


def failures(found: Mapping[str, Outcome]) -> dict[str, str]:
    """Variant → status and message of those that did not pass; a check that ran over no rows did not either."""
    wrong = {name: f"{one.status}: {one.message}" for name, one in found.items() if one.status != "PASSED"}
    empty = {name: "nothing was checked" for name, one in found.items() if not all(c.rows_checked for c in one.checks)}
    return {**empty, **wrong}
